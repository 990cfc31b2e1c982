"""How commands print: tables for people, JSON for scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

__all__ = ["error_console", "print_json", "print_mapping", "print_rows"]


def error_console() -> Console:
    """Return the console for messages; standard output carries results only."""
    return Console(stderr=True, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a result for scripts."""
    typer.echo(json.dumps(value, indent=2, sort_keys=True))


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table."""
    table = Table(*columns)
    for row in rows:
        table.add_row(*map(str, row))
    Console().print(table)


def print_mapping(value: Mapping[str, object]) -> None:
    """Print names and values, one pair a line."""
    print_rows(["", ""], list(value.items()))
