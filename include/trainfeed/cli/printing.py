"""Prints results of commands: tables for people, JSON for scripts; and damaged entries by name."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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


def print_result(lines: Sequence[str]) -> None:
    """Print the first line as the result, and the others as messages about it."""
    first, *others = lines
    typer.echo(printable_lines(first))
    for line in others:
        print_message(line)


def print_json(value: Any) -> None:
    """Print a result for scripts."""
    typer.echo(json.dumps(value, indent=2, sort_keys=True))


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; without columns, only the rows."""
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


def program() -> str:
    """Return the name by which this program was called, for commands in messages."""
    name = Path(sys.argv[0]).name
    return "python -m trainfeed" if name == "__main__.py" else name


def print_mapping(value: Mapping[str, object]) -> None:
    """Print names and values, one pair per line."""
    print_rows((), list(value.items()))


# --- Lists of entries on disk: a damaged entry is named, hides no other, and makes the status 3

# A job file is refused as a job, and the file that describes an entry may be gone.
_DAMAGED: Final = (FormatError, JobRejectedError, NotFoundError)
_STATUS: Final = 3


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
        except _DAMAGED as error:
            self._is_any = True
            row["damaged"] = str(error)
            print_message(f"{entry} is damaged: {error}")

    def end(self) -> None:
        """End the command with status 3 if an entry was damaged; call after the list is printed."""
        if self._is_any:
            raise typer.Exit(_STATUS)
