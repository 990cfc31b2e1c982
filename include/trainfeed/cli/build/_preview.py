"""Prints the result of ``trainfeed build --limit`` on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer

from trainfeed.cli._gate_rows import gate_rows
from trainfeed.cli._printing import print_rows, printable_lines
from trainfeed.dataset.interval_notes import told_passed_over

__all__ = ["print_preview"]

_STATISTICS: Final = ("count", "nulls", "min", "max", "mean", "std")
_LENGTHS: Final = {"min": "min_length", "max": "max_length", "mean": "mean_length"}


def print_preview(report: Mapping[str, Any]) -> None:
    """Print the report of ``preview``: counts, samples, quarantine, statistics, gates."""
    samples = ", ".join(f"{count} {split}" for split, count in report["samples"].items())
    summary = (
        f"{report['dataset']}/{report['interval']}: {report['records']} records read, samples:"
        f" {samples}; quarantined: {_reasons(report['quarantined'])}; filtered:"
        f" {_reasons(report['filtered'])}; nothing was published"
    )
    typer.echo(printable_lines(summary))
    if report["passed_over"]:
        told = told_passed_over(report["passed_over"])
        typer.echo(printable_lines(f"passed over in the folder of logs: {told}"))
    _print_table("first samples", report["first_samples"])
    _print_table("first quarantined records", report["first_quarantined"])
    _print_table("statistics", [_row(*item) for item in report["statistics"].items()])
    _print_table("quality gates, on these records alone", gate_rows(report["gates"]))


def _print_table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        typer.echo(f"\n{title}")
        columns = list(rows[0])
        print_rows(columns, [[_cell(row[column]) for column in columns] for row in rows])


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_cell, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("\n", r"\n")


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items()) or "none"


def _row(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    return {"field": name} | {column: _shown(found, column) for column in _STATISTICS}


def _shown(found: Mapping[str, Any], column: str) -> str:
    """Return a statistic of values; for texts and bytes, that of their lengths."""
    if found.get(column) is not None:
        return _cell(found[column])
    length = found.get(_LENGTHS.get(column, ""))
    return "" if length is None else f"{length:.6g} bytes"
