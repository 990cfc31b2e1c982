"""Repair of published versions: damaged files are made again, and swapped in if they are the same.

A version never changes. A repair therefore replaces a file only by one with the size and SHA-256 of
the manifest; else the version stays as it is, and the report says why. ``trainfeed file repair`` is
about something else: what can be read of a damaged record file, without a plan to make it again.

For each file, an intact copy comes first, then the file made again by its plan (``files``).
"""

from trainfeed.upkeep.repair.damage import (
    FileOutcome,
    Finding,
    FindingKind,
    RepairReport,
    find_damage,
)
from trainfeed.upkeep.repair.repairing import RepairWish, repair

__all__ = [
    "FileOutcome",
    "Finding",
    "FindingKind",
    "RepairReport",
    "RepairWish",
    "find_damage",
    "repair",
]
