"""Upkeep on the command line: leftovers, generations, waivers, boundaries of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.cli.upkeep._boundaries_command import app as boundaries
    from trainfeed.cli.upkeep._gc import gc
    from trainfeed.cli.upkeep._history_command import history
    from trainfeed.cli.upkeep._leases_command import show_leases
    from trainfeed.cli.upkeep._prune import prune_dataset
    from trainfeed.cli.upkeep._retire_command import retire
    from trainfeed.cli.upkeep._waive_command import waive
    from trainfeed.cli.upkeep._waivers_command import app as waivers

__all__ = [
    "boundaries",
    "gc",
    "history",
    "prune_dataset",
    "retire",
    "show_leases",
    "waive",
    "waivers",
]


__getattr__ = on_demand(__name__, __file__)
