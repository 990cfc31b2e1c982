"""Removes files of killed and abandoned builds."""

<<<<<<< HEAD
from trainfeed.pipeline.upkeep._leftovers import OLD, REPAIR, Swept, sweep
from trainfeed.pipeline.upkeep._retention import Removal, prune
=======
from trainfeed.pipeline.upkeep._leftovers import LANDING_TRASH, OLD, TRASH, Swept, discard, sweep
>>>>>>> ground

__all__ = [
    "LANDING_TRASH",
    "OLD",
<<<<<<< HEAD
    "REPAIR",
    "Removal",
=======
    "TRASH",
>>>>>>> ground
    "Swept",
    "discard",
    "sweep",
]
