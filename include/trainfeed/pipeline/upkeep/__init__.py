"""Removes files of killed and abandoned builds."""

from trainfeed.pipeline.upkeep._leftovers import (
    LANDING_TRASH,
    OLD,
    REPAIR,
    RETENTION,
    TRASH,
    Swept,
    discard,
    sweep,
)

__all__ = [
    "LANDING_TRASH",
    "OLD",
    "REPAIR",
    "RETENTION",
    "TRASH",
    "Swept",
    "discard",
    "sweep",
]
