"""Retention: removes what a data set no longer keeps, and nothing that is in use.

Each kind of thing has a rule in ``retention`` of dataset.yaml, and a module in ``kinds``. What a
run removes is found first, with the reasons for what stays; a dry run ends there.
"""

from trainfeed.retention._context import Context, Kind
from trainfeed.retention._item import Excess, Expired, Item, Kept
from trainfeed.retention._removals import Removals, execute, plan_removals, prune
from trainfeed.retention._retire import Retired, retire, retire_advice, retired_lines
from trainfeed.retention._rule import held_against
from trainfeed.retention._scheduled import scheduled_kinds
from trainfeed.retention._uses import Uses, uses_of
from trainfeed.retention.kinds import KINDS

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
