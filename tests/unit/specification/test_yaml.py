"""Only a small part of YAML is accepted; everything else is refused quickly."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainfeed.errors import SpecError
from trainfeed.specification import load_spec
from trainfeed.specification.load import read_yaml
from trainfeed.specification.messages import RefusedError

GOOD = (Path(__file__).with_name("clicks.yaml")).read_text()
Problem = Callable[[str, str], str]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 8\nseed: 7", "7: seed: expected every field once, got it in line 6 already"),
        ("seed: &seed 7", "6: seed: expected a plain value, got a YAML anchor or tag; quote"),
        ("seed: *seed", "6: seed: expected a value, got a YAML alias; a text that starts with *"),
        ("seed: !!int 7", "6: seed: expected a plain value, got a YAML anchor or tag; quote"),
        ("seed: !!python/object/apply:os.system [id]", "6: seed: expected a plain value, got a"),
        ("<<: {seed: 7}", "6: <<: unknown field; known here: name, "),
        ("seed: 7\n---\nseed: 8", "7: expected one document, got another one after ---"),
        ("? [a]\n: 7", "6: expected a field name, got a list or a mapping as one"),
        ("seed: [7", "7: expected YAML: while parsing a flow sequence, "),
        ("\tseed: 7", "6: expected YAML: while scanning for the next token, found character "),
        ("seed: {a: {b: {c: {d: {e: {f: {g: {h: 1}}}}}}}}", "6: seed.a.b.c.d.e.f.g.h: expected at"),
    ],
)
def test_what_a_specification_has_no_use_for_is_refused(
    problem: Problem, text: str, message: str
) -> None:
    assert problem("seed: 7", text).startswith(message)


def test_a_text_that_needs_quotes_is_told_so(problem: Problem) -> None:
    assert problem('schedule: "@daily"', "schedule: @daily").endswith(
        "; put a text that starts with such a character in quotes"
    )


def test_tabs_are_told_to_be_spaces(problem: Problem) -> None:
    assert problem("seed: 7", "\tseed: 7").endswith("; indent with spaces instead of tabs")


def test_directives_are_refused(problem: Problem) -> None:
    assert problem("name: clicks", "%YAML 1.1\n---\nname: clicks") == (
        "2: expected no directives, got %YAML"
    )
    assert problem("name: clicks", "%TAG ! tag:x,2000:\n---\nname: clicks") == (
        "2: expected no directives, got %TAG"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "1: expected the fields of a data set, got an empty file"),
        (b"# nothing\n", "1: expected the fields of a data set, got an empty file"),
        (b"[name]", "1: expected a mapping of fields, like name: clicks"),
        (b"clicks", "1: expected a mapping of fields, like name: clicks"),
        (b"name: clicks\n\xff", "2: expected UTF-8 text, got other bytes"),
        (b"a: 1\nb: \x07", "2: expected printable text, got a control character"),
        (b"x" * 270_000, "1: expected at most 262144 bytes, got more"),
    ],
)
def test_what_is_no_mapping_of_text_is_refused(folder: Path, data: bytes, message: str) -> None:
    (folder / "dataset.yaml").write_bytes(data)
    with pytest.raises(SpecError) as error:
        load_spec(folder)
    assert str(error.value) == f"{folder / 'dataset.yaml'}:{message}"


def test_a_file_of_another_name_is_named(folder: Path) -> None:
    (folder / "dataset.yaml").rename(folder / "dataset.yml")
    with pytest.raises(SpecError, match=r"got no such file; rename 'dataset\.yml'"):
        load_spec(folder)


LAUGHS = "\n".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(9))


@pytest.mark.parametrize(
    "bomb",
    [
        "[" * 60_000,
        "{a: " * 15_000,
        "[ " * 30_000,
        "? " * 30_000,
        "- " * 30_000,
        "a: &a [" + "*a, " * 15_000,
        "a0: &a0 [x]\n" + LAUGHS,
        "{" + "a, " * 20_000,
        "a" * 60_000,
        "a " * 30_000,
        "a: '" + "''" * 30_000 + "'",
        'a: "' + "\\x20" * 15_000 + '"',
        "\n".join(f"k{n}: 1" for n in range(6000)),
        "a: " + "9" * 60_000,
        "a: 1e999999999",
        "#" * 65_000,
        "\n" * 65_000,
        "a: |\n" + " x\n" * 20_000,
    ],
    ids=range(18),
)
def test_a_bomb_is_refused_before_it_goes_off(folder: Path, bomb: str) -> None:
    (folder / "dataset.yaml").write_text(bomb)
    started = time.process_time()
    with pytest.raises(SpecError) as error:
        load_spec(folder)
    # Half a second at most on a usual machine; hours where one goes off.
    assert time.process_time() - started < 20
    assert len(str(error.value)) < 10_000


def test_scalars_are_what_the_file_shows() -> None:
    text = "{a: 1, b: 0.1, c: '1', d: true, e: ~, f: yes, g: 2013-01-01, h: 1e3, i: 0x1F, j: .5}"
    values = read_yaml(text).value
    assert values == {
        "a": 1,
        "b": Decimal("0.1"),
        "c": "1",
        "d": True,
        "e": None,
        "f": "yes",
        "g": "2013-01-01",
        "h": Decimal(1000),
        "i": "0x1F",
        "j": Decimal("0.5"),
    }


def test_everything_has_its_line() -> None:
    lines = read_yaml("a:\n  - 1\n  -\n    b: 2\nc:\n").lines
    assert lines == {(): 1, ("a",): 1, ("a", 0): 2, ("a", 1): 4, ("a", 1, "b"): 4, ("c",): 5}


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ab01 \n\t:-[]{},#&*!|>'\"%@`?.\\~é\x00\x85\u2028"), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        document = read_yaml(text)
    except RefusedError as refused:
        (problem,) = refused.problems
        assert 1 <= problem.line <= len(text.splitlines()) + 1
    else:
        assert isinstance(document.value, dict)


SNIPPETS = st.sampled_from(
    ["null", "7", "-1", "0.5", "1e99", "true", "[]", "[1, null]", "{}", "{a: 1}", "''", "text",
     "record", "[[[]]]", "{topic: [x]}", "[{check: range}]", "[{check: 7}]", "2013-01-01", "1MiB"]
)  # fmt: skip


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_value_anywhere_is_taken_or_refused_in_our_words(
    folder: Path, data: st.DataObject
) -> None:
    at = data.draw(st.sampled_from([match.end() for match in re.finditer(": ", GOOD)]))
    end = at + len(re.match(r"[^,}\n]*", GOOD[at:])[0])  # type: ignore[index]
    (folder / "dataset.yaml").write_text(f"{GOOD[:at]}{data.draw(SNIPPETS)}{GOOD[end:]}")
    try:
        load_spec(folder)
    except SpecError as error:
        for line in str(error).splitlines():
            assert line.startswith(f"{folder / 'dataset.yaml'}:")
            assert "nput should" not in line
