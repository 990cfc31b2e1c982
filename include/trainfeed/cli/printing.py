"""The results of commands: tables for people, JSON for scripts, messages, and the exit status."""

from __future__ import annotations

import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NamedTuple, Protocol

import typer

from trainfeed.core.printable_text import printable
from trainfeed.errors import FormatError, JobRejectedError, NotFoundError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


# --- Prints results of commands: tables for people, JSON for scripts

# Rich takes longer to import than most commands to run, and many print without it.


# Width of tables in pipes and files, whose readers need whole lines.
_UNLIMITED_CHARS: Final = 100_000
# Columns of sentences, of which a cell has the first one, cut to a length; the rest is below.
_SENTENCES: Final = frozenset(
    {"cause", "first cause", "message", "note", "outcome", "problem", "problems", "reason", "why"}
)
_SENTENCE_CHARS: Final = 72
_SENTENCE_END: Final = re.compile(r"[.;]\s|\n")


def error_console() -> Console:
    """Return the console for messages; standard output carries results only."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True)


def printable_lines(text: str) -> str:
    """Return text without characters that a terminal acts on, except line ends."""
    return printable(text, keep="\n")


def print_message(text: str) -> None:
    """Print a message to standard error."""
    error_console().print(printable_lines(text), markup=False, highlight=False)


def _print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=bool(columns))
    for column in columns:
        table.add_column(_cell(column))
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    Console(width=None if sys.stdout.isatty() else _UNLIMITED_CHARS).print(table)


def _cell(value: object) -> Text:
    from rich.text import Text

    return Text(printable_lines(_text(value)), overflow="fold")


def _text(value: object) -> str:
    """Return a value as plain text: pairs and lists without the syntax of Python."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_nested(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "\n".join(map(_text, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _nested(value: object) -> str:
    if isinstance(value, Mapping):
        return f"({_text(value)})"
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else _text(value)


@contextmanager
def counted_progress(what: str, total: int) -> Iterator[Callable[[object], None]]:
    """Show a bar on a terminal; yield a function that is called with each thing that is done."""
    with progress(what) as tell:
        done = count(1)
        tell(total, 0)
        yield lambda _: tell(total, next(done))


def first_to_last(first: str, last: str) -> str:
    """Return the name of a run of intervals: its one, or its first and last."""
    return first if first == last else f"{first} … {last}"


def counts_line(counts: Mapping[Any, int]) -> str:
    """Return numbers with what they count, as in ``3 outdated, 363 current``; ``none`` without."""
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "none"


def program() -> str:
    """Return the name by which this program was called, for commands in messages."""
    name = Path(sys.argv[0]).name
    return "python -m trainfeed" if name == "__main__.py" else name


@contextmanager
def shown_at_work(what: str) -> Iterator[Callable[[str], object]]:
    """Show on a terminal what is at work; yield a function that changes the text."""
    if not sys.stderr.isatty():
        yield str
        return
    with error_console().status(what) as status:
        yield status.update


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal; yield a function of the total (0: unknown) and the number done."""
    from rich import progress as rich_progress

    console = error_console()
    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    with rich_progress.Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=None)

        def tell(total: int, done: int) -> None:
            bar.update(task, total=total or None, completed=done)

        yield tell


# --- A command returns its result; ``with_json`` adds the option, prints it and sets the status

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_JsonOrList = Annotated[bool, typer.Option("--json", help="Print JSON; a list for a range.")]


class Message(str):
    """A line of a text that goes to standard error: it is about the result, and no part of it."""

    __slots__ = ()


class Table(NamedTuple):
    """A table of a text.

    Attributes:
        columns: Their titles; without any, the table has only rows.
        rows: The cells of each row, or a mapping that has them under the titles.
    """

    columns: Sequence[str]
    rows: Iterable[Sequence[object] | Mapping[str, Any]]

    @classmethod
    def of_pairs(cls, pairs: Mapping[str, object]) -> Table:
        """Return the table of names and values, one pair per line."""
        return cls((), list(pairs.items()))

    def print(self) -> None:
        """Print the table to standard output, and below it what is too long for its cells."""
        below: dict[str, int] = {}
        rows = [
            [_short(column, cell, below) for column, cell in zip(self.columns, row, strict=True)]
            if self.columns
            else row
            for row in map(self._cells, self.rows)
        ]
        _print_rows(self.columns, rows)
        for text, number in below.items():
            typer.echo(printable_lines(f"({number}) {text}"))

    def _cells(self, row: Sequence[object] | Mapping[str, Any]) -> Sequence[object]:
        return [row[column] for column in self.columns] if isinstance(row, Mapping) else row


def _short(column: str, cell: object, below: dict[str, int]) -> object:
    """Return a cell, or the first sentence of one that is too long, which is added to ``below``."""
    text = _text(cell)
    if column not in _SENTENCES or len(text) <= _SENTENCE_CHARS:
        return cell
    number = below.setdefault(text, len(below) + 1)
    first = _SENTENCE_END.split(text, maxsplit=1)[0]
    cut = textwrap.shorten(first, _SENTENCE_CHARS, placeholder="…", break_on_hyphens=False)
    return f"{cut} ({number})"


def table(
    columns: Sequence[str], rows: Sequence[Sequence[object] | Mapping[str, Any]], nothing: str
) -> Table | Message:
    """Return the table, or the message that there is nothing to list."""
    return Table(columns, rows) if rows else Message(nothing)


def first_line(lines: Sequence[str]) -> list[str]:
    """Return lines of which the first is the result, and the others are messages about it."""
    return [lines[0], *map(Message, lines[1:])]


class Printed(Protocol):
    """A part of a text that prints itself, such as a table."""

    def print(self) -> None:
        """Print it to standard output."""


Part = str | Printed


@dataclass(eq=False, repr=False)
class Result:
    """What a command found.

    Attributes:
        value: What ``--json`` prints, or a function that returns it, for work that ``text`` does
            as it is read; None where the text is also for scripts.
        text: What people see instead: lines and tables, of which a generator makes none beside
            ``--json``; by default the pairs of ``value``.
        messages: Lines about the result for standard error, with and without ``--json``; a
            generator may end with an error.
        status: The exit status.
        sort_keys: Whether the JSON has its keys in order.
    """

    # Exit statuses, beside 0 and the 2 of wrong usage and settings.
    FAILED: ClassVar = 1
    DAMAGED: ClassVar = 3
    ENDED: ClassVar = 130

    value: Any
    text: str | Table | Iterable[Part] | None = None
    messages: Iterable[str] = ()
    status: int = 0
    sort_keys: bool = True

    def print(self, *, as_json: bool) -> None:
        """Print the result and its messages, and end with the status if it is not 0."""
        if as_json and self.value is not None:
            value = self.value() if callable(self.value) else self.value
            typer.echo(json.dumps(value, indent=2, sort_keys=self.sort_keys))
        else:
            text = Table.of_pairs(self.value) if self.text is None else self.text
            for part in [text] if isinstance(text, str | Table) else text:
                _print_part(part)
        for message in self.messages:
            print_message(message)
        if self.status:
            raise typer.Exit(self.status)


def _print_part(part: Part) -> None:
    if isinstance(part, Message):
        print_message(part)
    elif isinstance(part, str):
        typer.echo(printable_lines(part))
    else:
        part.print()


def json_option(declared: Any) -> Callable[[Callable[..., Result]], Callable[..., None]]:
    """Return the decorator of commands whose option ``--json`` is declared so."""
    option = inspect.Parameter(
        "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=declared
    )

    def add(function: Callable[..., Result]) -> Callable[..., None]:
        @wraps(function)
        def command(*, as_json: bool, **options: Any) -> None:
            function(**options).print(as_json=as_json)

        plain = inspect.signature(function, eval_str=True)
        parameters = [*plain.parameters.values(), option]
        # What typer makes the options of.
        command.__signature__ = plain.replace(parameters=parameters)  # type: ignore[attr-defined]
        return command

    return add


with_json: Final = json_option(_Json)
# Of commands on intervals, whose result is a list for a range.
with_json_or_list: Final = json_option(_JsonOrList)


def with_dry_run(text: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Return the decorator of commands whose parameter ``dry_run`` is ``--dry-run`` with a help."""
    declared = Annotated[bool, typer.Option("--dry-run", help=text)]

    def add(function: Callable[..., Result]) -> Callable[..., Result]:
        plain = inspect.signature(function, eval_str=True)
        parameters = [
            each.replace(annotation=declared) if each.name == "dry_run" else each
            for each in plain.parameters.values()
        ]
        # What ``with_json`` reads.
        function.__signature__ = plain.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return add


# --- Lists of entries on disk: a damaged entry is named, hides no other, and makes the status 3

# A job file is refused as a job, and the file that describes an entry may be gone.
_OF_DAMAGE: Final = (FormatError, JobRejectedError, NotFoundError)


class DamagedEntries:
    """The damaged entries of one list."""

    def __init__(self) -> None:
        self._is_any = False

    @contextmanager
    def named(self, entry: str, row: dict[str, Any]) -> Iterator[None]:
        """Name an entry that is found damaged in the block, and go on behind the block.

        Args:
            entry: Name of the entry, for the message.
            row: Row of the entry; gets the error as text under ``damaged``.
        """
        try:
            yield
        except _OF_DAMAGE as error:
            self._is_any = True
            row["damaged"] = str(error)
            print_message(f"{entry} is damaged: {error}")

    @property
    def status(self) -> int:
        """The exit status of a command whose entries are all read: 3 if one was damaged."""
        return Result.DAMAGED if self._is_any else 0
