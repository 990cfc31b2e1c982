"""How commands print: tables for people, JSON for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["error_console", "print_json", "print_mapping", "print_rows", "program"]

# Whoever reads a pipe or a file wants whole lines, however long.
_UNLIMITED_CHARS: Final = 100_000


def error_console() -> Console:
    """Return the console for messages; standard output carries results only."""
    return Console(stderr=True, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a result for scripts."""
    typer.echo(json.dumps(value, indent=2, sort_keys=True))


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table."""
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else _UNLIMITED_CHARS).print(table)


def program() -> str:
    """Return how this program was called, for remedies that name a command of it."""
    name = Path(sys.argv[0]).name
    return "python -m trainfeed" if name == "__main__.py" else name


def print_mapping(value: Mapping[str, object]) -> None:
    """Print names and values, one pair a line."""
    print_rows(["", ""], list(value.items()))
