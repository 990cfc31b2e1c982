"""Drift: how far the samples of a version are from those of earlier ones, by statistics alone."""

from trainfeed.drift._change import change
from trainfeed.drift._compared import MOST_PARTS, Compared, Selection, compare
from trainfeed.drift._distances import MEASURES, Distance
from trainfeed.drift._gate_entry import rule_of, selection_of
from trainfeed.drift._judged import (
    LEAST_VERSIONS,
    DriftRule,
    Judged,
    Judgement,
    judge,
    judgement_to_json,
)
from trainfeed.drift._version_drift import Snapshot, VersionDrift, drift_of

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
