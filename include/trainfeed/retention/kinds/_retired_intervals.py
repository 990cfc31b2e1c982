"""Whole intervals, which are retired: every generation goes for good."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import cast

from trainfeed.retention._context import Context
from trainfeed.retention._item import Excess, Expired, Item, Kept
from trainfeed.retention._rule import held_against
from trainfeed.retention.kinds._found_interval import IntervalItem, found_intervals
from trainfeed.retention.kinds._interval_removal import (
    begin_retirement,
    end_retirements,
    user_of,
)
from trainfeed.specification import RetentionRule, earlier_versions

__all__ = ["RetiredIntervals", "retiring"]


class RetiredIntervals:
    """Intervals beyond ``keep_intervals``, ``keep_intervals_days`` and ``max_bytes``.

    The newest interval stays, and those that gates of the next one compare with.
    """

    name = "intervals"

    def find(self, context: Context) -> Iterator[Expired | Kept | Excess]:
        """Yield intervals to retire, the oldest first."""
        yield from _held(context, self.name)

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Retire the intervals."""
        found = [cast("IntervalItem", each.item) for each in items]
        for each, item in zip(items, found, strict=True):
            begin_retirement(context, item, each.why)
        kept = end_retirements(context, found)
        return [Kept(item, kept[item.name]) for item in found if item.name in kept]


def retiring(context: Context) -> frozenset[str]:
    """Return the names of the intervals that a run retires now."""
    found = _held(context, RetiredIntervals.name)
    return frozenset(each.item.name for each in found if isinstance(each, Expired))


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
