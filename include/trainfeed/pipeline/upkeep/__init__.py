"""Removes files of killed and abandoned builds, and superseded generations."""

from trainfeed.pipeline.upkeep._leftovers import OLD, REPAIR, Swept, sweep
from trainfeed.pipeline.upkeep._retention import Removal, prune

__all__ = [
    "OLD",
    "REPAIR",
    "Removal",
    "Swept",
    "prune",
    "sweep",
]
