"""The results of a range of builds, as a table or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainfeed.cli._printing import print_json, print_rows
from trainfeed.cli.build._range_build import IntervalBuild

__all__ = ["print_results"]

_ERROR_CHARS: Final = 200
_COLUMNS: Final = ("interval", "outcome", "generation", "samples", "quarantined", "filtered")


def print_results(results: Sequence[IntervalBuild], *, as_json: bool) -> None:
    """Print the results of a range: JSON, or a table, of which an empty one is left out."""
    if as_json:
        print_json([each.to_json() for each in results])
        return
    if results:
        print_rows(_COLUMNS, [_row(each) for each in results])


def _row(result: IntervalBuild) -> list[object]:
    if result.status == 0:
        report = result.report
        return [result.interval, report["verdict"], *(report.get(c, "") for c in _COLUMNS[2:])]
    kind, message = result.error
    first = message.partition("\n")[0][:_ERROR_CHARS]
    return [result.interval, f"{kind}: {first}" if kind else first, "", "", "", ""]
