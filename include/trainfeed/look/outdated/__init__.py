"""Outdated versions: those that today's code, specification, lookups or uploads would not make.

The answer comes from manifests and plans, without the source; a separate, slower comparison asks
the source. Neither changes anything: ``trainfeed bring-forward`` and builds with the rule
``rebuild`` do that, and decide again for themselves.
"""

from trainfeed.look.outdated.report import (
    CauseCount,
    Cost,
    IntervalFinding,
    OutdatedReport,
    SourceFinding,
    TotalCost,
)
from trainfeed.look.outdated.search import compare_with_source, find_outdated

__all__ = [
    "CauseCount",
    "Cost",
    "IntervalFinding",
    "OutdatedReport",
    "SourceFinding",
    "TotalCost",
    "compare_with_source",
    "find_outdated",
]
