"""Plans that no version needs: those of retired intervals, and those that were never published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final, cast

from trainfeed.dataset.layout import DatasetFolder, parse_generation
from trainfeed.dataset.leases import building
from trainfeed.dataset.retirements import retirement_of
from trainfeed.retention._context import Context
from trainfeed.retention._item import Excess, Expired, Item, Kept
from trainfeed.retention._rule import held_against
from trainfeed.retention.kinds._plan_files import PlanItem, plan_item, remove_plan_files
from trainfeed.retention.landing import landed_for

__all__ = ["SpentPlans"]

# A build that pauses goes on within this time; it is that after which housekeeping removes its
# work files.
_YOUNG: Final = timedelta(days=3)


class SpentPlans:
    """Plans of retired intervals, and by the rule ``plans`` those that were never published.

    The plans of a retired interval go after its landing files, which are found through them.
    """

    name = "plans"

    def find(self, context: Context) -> Iterator[Expired | Kept | Excess]:
        """Yield plans with the files about them, by interval."""
        open_ones = []
        for interval in context.folder.planned_intervals():
            retired = retirement_of(context.folder, interval)
            if retired is None:
                open_ones += _open(context.folder, self.name, interval)
            else:
                yield from _of_retired(context, self.name, interval, retired.last_generation)
        rule = context.spec.retention.plans
        yield from held_against(rule, open_ones, context.now, lambda item: _user(context, item))

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Delete the files of the plans, that of a plan after those about it."""
        kept = []
        for each in items:
            item = cast("PlanItem", each.item)
            why = None if item.is_retired else _user(context, item)
            if why is None:
                remove_plan_files(item)
            else:
                kept.append(Kept(item, why))
        return kept


def _of_retired(context: Context, kind: str, interval: str, last: int) -> Iterator[Expired | Kept]:
    ids = [each for each in context.folder.plan_ids(interval) if _number(each) <= last]
    left = landed_for(context, interval) if ids else []
    for plan_id in ids:
        item = plan_item(context.folder, kind, interval, plan_id, is_retired=True)
        if left:
            yield Kept(item, f"its landing files go first, as {left[0]}")
        else:
            yield Expired(item, "its interval is retired")


def _open(folder: DatasetFolder, kind: str, interval: str) -> list[PlanItem]:
    """Return the plans of an interval whose generation was never published."""
    last = folder.last_generation(interval)
    ids = [each for each in folder.plan_ids(interval) if _number(each) > last]
    return [plan_item(folder, kind, interval, each, is_retired=False) for each in ids]


def _user(context: Context, item: Item) -> str | None:
    """Return why a plan that was never published may still be."""
    plan = cast("PlanItem", item)
    if plan.since > context.now - _YOUNG:
        return "a build of it may pause"
    if plan.generation <= context.folder.last_generation(plan.interval):
        return "its generation was published"
    lease = next(iter(building(context.folder, plan.interval, context.now)), None)
    return None if lease is None else f"it is being built: {lease.told}"


def _number(plan_id: str) -> int:
    return parse_generation(plan_id.rpartition("-")[2])
