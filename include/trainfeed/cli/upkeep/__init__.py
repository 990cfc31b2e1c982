"""Upkeep on the command line: leftovers, generations, waivers, boundaries of topics."""

from trainfeed.cli.upkeep._boundaries_command import app as boundaries
from trainfeed.cli.upkeep._gc import gc
from trainfeed.cli.upkeep._prune import prune_dataset
from trainfeed.cli.upkeep._waive_command import waive
from trainfeed.cli.upkeep._waivers_command import app as waivers

__all__ = ["boundaries", "gc", "prune_dataset", "waive", "waivers"]
