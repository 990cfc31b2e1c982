"""Removes files of killed and abandoned builds."""

from trainfeed.pipeline.upkeep._leftovers import (
    LANDING_TRASH,
    OLD,
    REPAIR,
    RETENTION,
    TRASH,
    Leftover,
    discard,
    leftover_spills,
    leftovers_of_dataset,
)
from trainfeed.pipeline.upkeep._sweep import Swept, sweep

__all__ = [
    "LANDING_TRASH",
    "OLD",
    "REPAIR",
    "RETENTION",
    "TRASH",
    "Leftover",
    "Swept",
    "discard",
    "leftover_spills",
    "leftovers_of_dataset",
    "sweep",
]
