"""Removes files of killed and abandoned builds."""

from trainfeed.pipeline.upkeep._leftovers import OLD, TRASH, Swept, discard, sweep

__all__ = [
    "OLD",
    "TRASH",
    "Swept",
    "discard",
    "sweep",
]
