"""Plans that no version needs: those of retired intervals, and those that were never published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from trainfeed.dataset.layout import generation_of_plan
from trainfeed.dataset.retire import retirement_of
from trainfeed.errors import NotFoundError
from trainfeed.retention._context import Context
from trainfeed.retention._given_up_plans import given_up_plans, may_be_published
from trainfeed.retention._item import Excess, Expired, Kept
from trainfeed.retention._plan_files import PlanItem, plan_item, remove_plan_files
from trainfeed.retention.landing import landed_for

__all__ = ["SpentPlans"]


class SpentPlans:
    """Plans of retired intervals, and by the rule ``plans`` those that were never published.

    A plan goes after the landing files that only it names, which are found through it.
    """

    name = "plans"

    def find(self, context: Context) -> Iterator[Expired | Kept | Excess]:
        """Yield plans with the files about them, by interval."""
        for interval in context.look.planned_intervals():
            retired = retirement_of(context.look, interval)
            if retired is not None:
                yield from _of_retired(context, self.name, interval, retired.last_generation)
        for each in given_up_plans(context):
            yield _after_landing(context, each) if isinstance(each, Expired) else each

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Delete the files of the plans, that of a plan after those about it."""
        kept = []
        for each in items:
            item = cast("PlanItem", each.item)
            why = None if item.is_retired else _needed_again(context, item)
            if why is None:
                remove_plan_files(item)
            else:
                kept.append(Kept(item, why))
        return kept


def _of_retired(context: Context, kind: str, interval: str, last: int) -> Iterator[Expired | Kept]:
    ids = [each for each in context.look.plan_ids(interval) if generation_of_plan(each) <= last]
    left = landed_for(context, interval) if ids else []
    for plan_id in ids:
        item = plan_item(context.folder, kind, interval, plan_id, is_retired=True)
        if left:
            yield Kept(item, _landed(left))
        else:
            yield Expired(item, "its interval is retired")


def _after_landing(context: Context, each: Expired) -> Expired | Kept:
    item = cast("PlanItem", each.item)
    left = landed_for(context, item.interval, item.plan_id)
    return Kept(item, _landed(left)) if left else each


def _landed(left: Sequence[str]) -> str:
    return f"its landing files go first, as {left[0]}"


def _needed_again(context: Context, item: PlanItem) -> str | None:
    """Return why a plan that was given up stays: also a waiver makes it young again."""
    try:
        again = plan_item(context.folder, item.kind, item.interval, item.plan_id, is_retired=False)
    except NotFoundError:
        return None
    return may_be_published(context, again)
