"""The report about outdated versions on a terminal, for the commands that show it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

import typer

from trainfeed.cli._printing import print_message, print_rows, program
from trainfeed.outdated import CauseCount, IntervalFinding, OutdatedReport, TotalCost

__all__ = ["counted", "print_outdated", "size", "told_cost"]

_COLUMNS: Final = ("intervals", "state", "number", "why")
_CAUSE_COLUMNS: Final = ("cause", "intervals", "first version")
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600


def print_outdated(report: OutdatedReport) -> None:
    """Print runs of intervals with the same state and causes, then the causes and the cost."""
    print_rows(_COLUMNS, list(_runs(report)))
    if report.causes:
        print_rows(_CAUSE_COLUMNS, list(map(_cause_row, report.causes)))
    typer.echo(_summary(report))
    for doubt in report.doubts:
        print_message(f"{report.dataset}: {doubt}")


def counted(report: OutdatedReport) -> str:
    """Return the numbers of intervals by state: ``3 outdated, 363 current``."""
    return ", ".join(f"{number} {state}" for state, number in report.counts.items()) or "none"


def told_cost(cost: TotalCost) -> str:
    """Return the cost as one line."""
    parts = [f"{cost.records} records ({size(cost.record_bytes)})"]
    source = "all landed, the source is not read again"
    if cost.not_landed:
        source = f"{cost.not_landed} of {cost.intervals} intervals from the source"
    parts.append(source)
    parts.append(f"about {size(cost.version_bytes)} for the new generations")
    parts.append(_time(cost))
    return "; ".join(parts)


def size(num_bytes: float) -> str:
    """Return a number of bytes for people."""
    for unit in _UNITS[:-1]:
        if num_bytes < 1024:
            return f"{num_bytes:.0f} B" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.1f} {_UNITS[-1]}"


def _time(cost: TotalCost) -> str:
    if cost.seconds is None:
        return "no time is known: the plan files of these versions are gone"
    return (
        f"about {_duration(cost.seconds)} one after another, by the median time from plan to"
        f" publication of {cost.seconds_known} of them"
    )


def _duration(seconds: float) -> str:
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds / _HOUR_S:.1f} h"


def _runs(report: OutdatedReport) -> Iterator[list[object]]:
    for (state, why), run in groupby(report.intervals, _alike):
        each = list(run)
        names = [each[0].interval, each[-1].interval]
        yield [names[0] if len(each) == 1 else " … ".join(names), state, len(each), why]


def _alike(each: IntervalFinding) -> tuple[str, str]:
    return each.state, each.why


def _cause_row(cause: CauseCount) -> list[object]:
    return [cause.text, cause.intervals, cause.first]


def _summary(report: OutdatedReport) -> str:
    if not report.outdated:
        finish = f"; {program()} bring-forward finishes them" if report.unfinished else ""
        return f"{report.dataset}: no version is outdated ({counted(report)}){finish}"
    first, last = report.outdated[0].interval, report.outdated[-1].interval
    span = first if first == last else f"{first}/{last}"
    return (
        f"{report.dataset}: {counted(report)}; bringing the outdated ones forward:"
        f" {told_cost(report.cost)}; {program()} bring-forward {report.dataset} {span}"
    )
