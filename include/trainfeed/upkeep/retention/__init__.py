"""Retention: removes what a data set no longer keeps, and nothing that is in use.

Each kind of thing has a rule in ``retention`` of dataset.yaml, and a class that says how its items
are found, hidden and deleted. What a run removes is found first, with the reasons for what stays; a
dry run ends there. Then one sweep (``context.Kind``) hides, looks again, and deletes.
"""

from trainfeed.upkeep.retention.context import Context, Kind
from trainfeed.upkeep.retention.items import Excess, Expired, Item, Kept, held_against
from trainfeed.upkeep.retention.sweep import (
    KINDS,
    Removals,
    Retired,
    execute,
    plan_removals,
    prune,
    retire,
    retire_advice,
    retired_lines,
    scheduled_kinds,
)
from trainfeed.upkeep.retention.uses import Uses, uses_of

__all__ = [
    "KINDS",
    "Context",
    "Excess",
    "Expired",
    "Item",
    "Kept",
    "Kind",
    "Removals",
    "Retired",
    "Uses",
    "execute",
    "held_against",
    "plan_removals",
    "prune",
    "retire",
    "retire_advice",
    "retired_lines",
    "scheduled_kinds",
    "uses_of",
]
