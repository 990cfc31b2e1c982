"""A command returns its result: value, text, messages and status, with and without ``--json``."""

import json
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from trainfeed.cli.printing import (
    Message,
    Result,
    Table,
    counts_line,
    first_to_last,
    json_option,
    table,
    with_dry_run,
    with_json,
    with_json_or_list,
)
from trainfeed.errors import NotFoundError


def command(result, decorator=with_json):
    @decorator
    def look(name: Annotated[str, typer.Argument()] = "clicks", *, loud: bool = False) -> Result:
        """Look at something."""
        return result(name, loud) if callable(result) else result

    app = typer.Typer(rich_markup_mode=None)
    app.command()(look)
    return lambda *arguments: CliRunner().invoke(app, arguments)


def lines():
    yield "first \x1b[2J"
    yield Table(("name", "size"), [{"size": 1, "name": "a", "more": 2}, ("b", None)])
    yield Message("about it")


def test_json_has_the_value_and_text_the_lines_and_tables():
    invoke = command(lambda name, loud: Result({"name": name, "loud": loud}, lines(), ["told"]))
    found = invoke("flights", "--loud", "--json")
    assert json.loads(found.stdout) == {"loud": True, "name": "flights"}
    assert (found.stderr, found.exit_code) == ("told\n", 0)
    found = invoke()
    first, *shown = found.stdout.splitlines()
    assert first == r"first \x1b[2J"
    assert [line.split("│")[1:3] for line in shown if "│" in line] == [
        [" a    ", " 1    "],
        [" b    ", "      "],
    ]
    assert (found.stderr, found.exit_code) == ("about it\ntold\n", 0)


def test_a_text_is_not_made_beside_json():
    def text():
        raise AssertionError
        yield

    assert command(Result([], text()))("--json").stdout == "[]\n"


def test_without_a_text_the_pairs_of_the_value_are_shown():
    shown = command(Result({"rows": 3}))().stdout
    assert [part.strip() for part in shown.splitlines()[1].split("│")[1:3]] == ["rows", "3"]


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_the_status_ends_the_command_behind_its_messages(arguments):
    found = command(Result({}, "text", ["first", "second"], Result.DAMAGED))(*arguments)
    assert (found.exit_code, found.stderr) == (3, "first\nsecond\n")
    assert found.stdout == ("{}\n" if arguments else "text\n")


def test_messages_may_end_with_an_error():
    def messages():
        yield "one is missing"
        raise NotFoundError("the other, too")

    found = command(Result({"a": 1}, messages=messages()))("--json")
    assert (json.loads(found.stdout), found.stderr) == ({"a": 1}, "one is missing\n")
    assert isinstance(found.exception, NotFoundError)


def test_a_list_without_rows_is_a_message():
    found = command(Result([], table(("name",), [], "nothing is there")))()
    assert (found.stdout, found.stderr) == ("", "nothing is there\n")
    assert isinstance(table(("name",), [("a",)], ""), Table)


def test_the_option_is_the_last_one_and_has_the_help_that_is_declared():
    declared = Annotated[bool, typer.Option("--json", help="Print edges as JSON.")]
    shown = command(Result({}), json_option(declared))("--help").stdout
    assert "Look at something." in shown
    assert shown.index("--loud") < shown.index("--json") < shown.index("Print edges as JSON.")


def test_runs_and_counts_are_told_in_one_way():
    assert first_to_last("2013-01-01", "2013-01-01") == "2013-01-01"
    assert first_to_last("2013-01-01", "2013-01-03") == "2013-01-01 … 2013-01-03"
    assert counts_line({"outdated": 3, "current": 0}) == "3 outdated, 0 current"
    assert counts_line({}) == "none"


LONG = (
    "WindowIncompleteError: data set 'clicks' lacks 3 of 7 intervals; nothing was read; build them:"
    " trainfeed build clicks/2024-03-01/2024-03-03, or read what is there"
)
ENDLESS = "expected " + "one more word and " * 30


def test_a_long_sentence_is_below_its_table_and_the_cell_has_its_beginning():
    rows = [("1st", LONG), ("2nd", "short"), ("3rd", LONG), ("4th", ENDLESS), ("5th", "a; b. c")]
    shown = command(Result([], Table(("day", "reason"), rows)))().stdout.splitlines()
    cells = [line.split("│")[2].strip() for line in shown if line.startswith("│")]
    assert cells[0] == "WindowIncompleteError: data set 'clicks' lacks 3 of 7 intervals (1)"
    assert cells[1:3] == ["short", cells[0]]
    assert cells[3].startswith("expected one more word and")
    assert cells[3].endswith("… (2)")
    assert cells[4] == "a; b. c"
    assert shown[-2:] == [f"(1) {LONG}", f"(2) {ENDLESS}"]
    assert max(len(line) for line in shown[:-2]) <= 100


def test_other_columns_and_pairs_are_never_cut():
    digest = "0123456789abcdef" * 20
    shown = command(Result([], [Table(("name", "record"), [("a", ENDLESS)])]))().stdout
    assert ENDLESS.strip() in shown
    assert digest in command(Result({"reason": digest}))().stdout


def test_work_that_is_shown_as_it_goes_is_done_once_and_its_value_is_that_of_json():
    done = []

    def work():
        for number in (1, 2):
            done.append(number)
            yield {"number": number}

    def result(name, loud):
        rows = work()
        return Result(lambda: list(rows), (str(row["number"]) for row in rows))

    invoke = command(result)
    assert (invoke().stdout, done) == ("1\n2\n", [1, 2])
    assert json.loads(invoke("--json").stdout) == [{"number": 1}, {"number": 2}]
    assert done == [1, 2, 1, 2]


def test_without_a_value_the_text_is_for_scripts_too():
    invoke = command(Result(None, ["a", "b"]))
    assert invoke("--json").stdout == invoke().stdout == "a\nb\n"


def test_the_keys_of_json_are_in_order_unless_their_own_order_says_something():
    assert list(json.loads(command(Result({"b": 1, "a": 2}))("--json").stdout)) == ["a", "b"]
    kept = command(Result({"b": 1, "a": 2}, sort_keys=False))("--json").stdout
    assert list(json.loads(kept)) == ["b", "a"]


def test_a_dry_run_is_declared_with_its_help_and_handed_over():
    @with_json_or_list
    @with_dry_run("Only look.")
    def look(*, dry_run: bool = False) -> Result:
        """Look at something."""
        return Result({"dry_run": dry_run})

    app = typer.Typer(rich_markup_mode=None)
    app.command()(look)
    invoke = CliRunner().invoke
    assert json.loads(invoke(app, ["--dry-run", "--json"]).stdout) == {"dry_run": True}
    assert json.loads(invoke(app, ["--json"]).stdout) == {"dry_run": False}
    shown = " ".join(invoke(app, ["--help"]).stdout.split())
    assert "--dry-run" in shown
    assert "Only look." in shown
    assert "a list for a range" in shown
