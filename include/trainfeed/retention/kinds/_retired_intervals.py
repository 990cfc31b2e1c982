"""Whole intervals, which are retired: every generation, and the plans, go for good."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import cast

from trainfeed.dataset.retirements import retirement_of
from trainfeed.retention._context import Context
from trainfeed.retention._item import Excess, Expired, Item, Kept
from trainfeed.retention._rule import held_against
from trainfeed.retention.kinds._found_interval import IntervalItem, found_intervals
from trainfeed.retention.kinds._interval_removal import (
    begin_retirement,
    end_retirements,
    user_of,
)
from trainfeed.retention.kinds._spent_plans import plan_files, plans_item, remove_files
from trainfeed.specification import RetentionRule, earlier_versions

__all__ = ["RetiredIntervals", "retiring"]


class RetiredIntervals:
    """Intervals beyond ``keep_intervals``, ``keep_intervals_days`` and ``max_bytes``.

    The newest interval stays, and those that gates of the next one compare with.
    """

    name = "intervals"

    def find(self, context: Context) -> Iterator[Expired | Kept | Excess]:
        """Yield intervals to retire, the oldest first, after retirements that were begun."""
        yield from _begun(context, self.name)
        yield from _held(context, self.name)

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Retire the intervals."""
        whole = [each for each in items if isinstance(each.item, IntervalItem)]
        for each in whole:
            begin_retirement(context, cast("IntervalItem", each.item), each.why)
        kept = end_retirements(context, [cast("IntervalItem", each.item) for each in whole])
        for each in items:
            retired = retirement_of(context.folder, each.item.name)
            if retired is not None and each.item.name not in kept:
                remove_files(plan_files(context.folder, each.item.name, retired.last_generation))
        return [Kept(each.item, kept[each.item.name]) for each in whole if each.item.name in kept]


def retiring(context: Context) -> frozenset[str]:
    """Return the names of the intervals that a run retires now."""
    found = _held(context, RetiredIntervals.name)
    return frozenset(each.item.name for each in found if isinstance(each, Expired))


def _begun(context: Context, kind: str) -> Iterator[Expired]:
    """Yield the plans of retired intervals that a killed run has left."""
    for interval in context.folder.planned_intervals():
        retired = retirement_of(context.folder, interval)
        if retired is not None:
            files = plan_files(context.folder, interval, retired.last_generation)
            if files:
                yield Expired(plans_item(kind, interval, files), "a retirement that was begun")


def _held(context: Context, kind: str) -> Iterator[Expired | Kept | Excess]:
    """Yield what the rule does not keep; without a rule nothing is looked at."""
    part = context.spec.retention
    rule = RetentionRule(
        keep=part.keep_intervals, keep_days=part.keep_intervals_days, max_bytes=part.max_bytes
    )
    if rule == RetentionRule():
        return
    found = found_intervals(context, kind)
    user = partial(_user, context, _newest(context, found))
    for each in held_against(rule, found, context.now, user, order=_end, size=_kept_bytes):
        yield Expired(each.item, _named(each.why)) if isinstance(each, Expired) else each


def _named(why: str) -> str:
    """Return the part of the rule under its name in dataset.yaml."""
    return {"keep": "keep_intervals", "keep_days": "keep_intervals_days"}.get(
        (name := why.partition(":")[0]), name
    ) + why[len(name) :]


def _end(item: Item) -> datetime:
    return cast("IntervalItem", item).end


def _kept_bytes(item: Item) -> int:
    return cast("IntervalItem", item).kept_bytes


def _newest(context: Context, found: Sequence[IntervalItem]) -> frozenset[str]:
    """Return the intervals that the gates of the next one compare with, at least the newest."""
    ordered = sorted(found, key=_end)
    return frozenset(each.name for each in ordered[-earlier_versions(context.spec.quality) :])


def _user(context: Context, newest: frozenset[str], item: Item) -> str | None:
    """Return who uses an interval, None if nobody does."""
    if item.name in newest:
        return "it is the newest, or gates of the next interval compare with it"
    return user_of(context, context.uses, cast("IntervalItem", item))
