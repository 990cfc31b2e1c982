"""Upkeep on the command line: leftovers, old generations, boundaries of topics."""

from trainfeed.cli.upkeep._boundaries_command import app as boundaries
from trainfeed.cli.upkeep._gc import gc
from trainfeed.cli.upkeep._prune import prune_dataset

__all__ = ["boundaries", "gc", "prune_dataset"]
