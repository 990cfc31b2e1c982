"""Every documented mistake: the line, the field, what was expected and got, the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

Problem = Callable[[str, str], str]


def mistakes() -> list[object]:
    cases = []
    text = Path(__file__).with_name("mistakes.txt").read_text()
    for block in re.sub(r"(?m)^#.*\n", "", text).strip().split("\n\n"):
        right, wrong, message = block.split("\n", 2)
        right, wrong = (re.sub(r"\\(.)", _unescaped, line[2:]) for line in (right, wrong))
        cases.append(pytest.param(right, wrong, message, id=wrong))
    return cases


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


@pytest.mark.parametrize(("right", "wrong", "message"), mistakes())
def test_a_mistake_is_named_with_line_field_and_remedy(
    problem: Problem, right: str, wrong: str, message: str
) -> None:
    assert problem(right, wrong) == message


def test_several_mistakes_come_in_one_error_in_the_order_of_the_file(problem: Problem) -> None:
    text = problem(
        'train: {entry: "train:main", window: 3', "sed: 8\ntrain: {entry: trian, window: three"
    )
    assert [line.split(": expected")[0] for line in text.splitlines()] == [
        "24: sed: unknown field; did you mean 'seed'?",
        "25: train.entry",
        "25: train.window",
    ]


@pytest.mark.parametrize(
    "name",
    ["..", ".", ".snap", "/etc", "a/b", "a\\0b", "a\\nb", "\\u202eab", "é", "e\\u0301", "x" * 256,
     "-rf", "$(id)", "{{ 7*7 }}", "%s", "_a", "Clicks", "clicks\\n", "\\uff11"],
)  # fmt: skip
def test_a_name_that_is_more_than_a_name_is_refused_on_one_line(
    problem: Problem, name: str
) -> None:
    text = problem("name: clicks", f'name: "{name}"')
    assert text.startswith("1: name: expected a name ")
    assert text.isprintable()
    assert len(text) < 250


def test_what_a_terminal_would_act_on_is_escaped(problem: Problem) -> None:
    text = problem("seed: 7", '"\\e[31m\\nseed": 7')
    assert text.startswith("6: \\x1b[31m\\nseed: unknown field; ")
    assert text.isprintable()


def test_a_long_value_is_shown_in_part(problem: Problem) -> None:
    assert problem("seed: 7", f"seed: {'x' * 5000}").endswith("…")


def test_no_module_at_all_asks_for_one(problem: Problem, folder: Path) -> None:
    for module in folder.glob("*.py"):
        module.unlink()
    function, entry = problem("seed: 7", "seed: 8").splitlines()
    assert function.endswith(
        "expected the file preprocess.py beside the specification, got none; add it"
    )
    assert entry.endswith("expected the file train.py beside the specification, got none; add it")


def test_a_file_full_of_mistakes_shows_the_first_twenty(problem: Problem) -> None:
    lines = problem("seed: 7", "\n".join(f"x{n}: 1" for n in range(100))).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "26: 80 more problems from here on"
