"""Upkeep on the command line: leftovers, generations, waivers, boundaries of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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

_HOMES: Final = {
    "boundaries": "._boundaries_command:app",
    "gc": "._gc",
    "history": "._history_command",
    "prune_dataset": "._prune",
    "retire": "._retire_command",
    "show_leases": "._leases_command",
    "waive": "._waive_command",
    "waivers": "._waivers_command:app",
}

__getattr__ = on_demand(__name__, _HOMES)
