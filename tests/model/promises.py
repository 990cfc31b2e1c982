"""The limits that the counts of many random logs must keep."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["allowed", "broken"]

_BASELINE = json.loads((Path(__file__).parent / "baseline.json").read_text())

# These counts are 0 for all seeds.
_NEVER = ("lost", "doubled", "unnamed", "torn", "miscounted", "unlike", "errors", "unbuilt")


def allowed(logs):
    """Return how many needless stops the earlier rule has in this many logs, at its rate."""
    return _BASELINE["needless_nightly"] * logs // _BASELINE["logs"]


def broken(counts, *, needless, most_needless, empty_per_1000=1):
    """Return one line for every promise that the counts break.

    Args:
        counts: Result of ``run`` over many seeds.
        needless: Needless stops in nightly order.
        most_needless: How many there may be.
        empty_per_1000: Versions that may be wrongly empty; in a few hundred logs chance may
            gather some more than there are in very many.
    """
    lines = [f"{counts[name]} {name}, expected none" for name in _NEVER if counts[name]]
    if counts["empty_wrong"] * 1000 > counts["versions"] * empty_per_1000:
        lines.append(f"{counts['empty_wrong']} of {counts['versions']} versions wrongly empty")
    if counts["harsh_empty_wrong"] * 50 > counts["harsh_versions"]:
        lines.append(f"{counts['harsh_empty_wrong']} of {counts['harsh_versions']} harsh versions")
    # One in 20,000 logs: in fewer logs none.
    if counts["logs_silent"] > counts["logs"] // 20_000:
        lines.append(f"retention took records in silence in {counts['logs_silent']} logs")
    if needless > most_needless:
        lines.append(f"{needless} needless stops in nightly order, {most_needless} before")
    return lines
