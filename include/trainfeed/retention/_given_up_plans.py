"""Plans that were never published, held against the rule ``plans``.

What the rule gives up is decided here alone: for the plans themselves, and for landing files that
only they name.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final, cast

from trainfeed.dataset.lease import building
from trainfeed.retention._context import Context
from trainfeed.retention._folder_look import Look
from trainfeed.retention._item import Excess, Expired, Item, Kept
from trainfeed.retention._plan_files import PlanItem, open_plans, plan_item
from trainfeed.retention._rule import held_against

__all__ = ["given_up_plans", "may_be_published"]

_KIND: Final = "plans"

# A build that pauses goes on within this time; it is that after which housekeeping removes its
# work files.
_YOUNG: Final = timedelta(days=3)


def given_up_plans(context: Context) -> Iterator[Expired | Kept | Excess]:
    """Yield the plans that were never published and that the rule ``plans`` does not keep.

    A retired interval has such plans only after a rebuild with a reason: the numbers of earlier
    plans were given up with the interval.

    Args:
        context: The data set.

    Raises:
        StorageError: The publication root refused or failed.
    """
    rule, found = context.spec.retention.plans, []
    for interval in context.look.planned_intervals():
        found += _open(context.look, interval)
    yield from held_against(rule, found, context.now, lambda item: may_be_published(context, item))


def may_be_published(context: Context, item: Item) -> str | None:
    """Return why a plan that was not published when it was found may still be, or was."""
    plan = cast("PlanItem", item)
    if plan.since > context.now - _YOUNG:
        return "a build of it may pause"
    if plan.generation <= context.folder.last_generation(plan.interval):
        return "its generation was published"
    lease = next(iter(building(context.folder, plan.interval, context.now)), None)
    return None if lease is None else f"it is being built: {lease.told}"


def _open(folder: Look, interval: str) -> list[PlanItem]:
    """Return the plans of an interval whose generation was never published."""
    ids = open_plans(folder, interval)
    return [plan_item(folder, _KIND, interval, each, is_retired=False) for each in ids]
