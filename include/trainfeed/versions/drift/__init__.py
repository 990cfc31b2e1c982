"""Drift: how far the samples of a version are from those of earlier ones, by statistics alone."""

from trainfeed.versions.drift.comparison import (
    LEAST_VERSIONS,
    MOST_PARTS,
    Compared,
    DriftRule,
    Judged,
    Judgement,
    Selection,
    Snapshot,
    VersionDrift,
    change,
    compare,
    drift_of,
    judge,
    judgement_to_json,
    rule_of,
    selection_of,
)
from trainfeed.versions.drift.distances import MEASURES, Distance

__all__ = [
    "LEAST_VERSIONS",
    "MEASURES",
    "MOST_PARTS",
    "Compared",
    "Distance",
    "DriftRule",
    "Judged",
    "Judgement",
    "Selection",
    "Snapshot",
    "VersionDrift",
    "change",
    "compare",
    "drift_of",
    "judge",
    "judgement_to_json",
    "rule_of",
    "selection_of",
]
