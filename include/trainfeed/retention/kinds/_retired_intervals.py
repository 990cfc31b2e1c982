"""Whole intervals, which are retired: every generation goes for good."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import ClassVar, cast

from trainfeed.dataset.retire import begun_retirement
from trainfeed.retention._context import Context
from trainfeed.retention._item import Excess, Expired, Item, Kept
from trainfeed.retention._rule import held_against
from trainfeed.retention.kinds._found_interval import (
    IntervalItem,
    found_interval,
    found_intervals,
    newest_of,
    with_sizes,
)
from trainfeed.retention.kinds._found_version import half_removed
from trainfeed.retention.kinds._interval_removal import retire_items, user_of
from trainfeed.specification import RetentionRule

__all__ = ["RetiredIntervals", "retiring"]


@dataclass(frozen=True)
class RetiredIntervals:
    """Intervals beyond ``keep_intervals``, ``keep_intervals_days`` and ``max_bytes``.

    The newest interval stays, and those that gates of the next one compare with.

    Attributes:
        superseded_go: Whether superseded generations go as well, so that their bytes do not count.
    """

    superseded_go: bool = True
    name: ClassVar[str] = "intervals"

    def find(self, context: Context) -> Iterator[Expired | Kept | Excess]:
        """Yield intervals to retire, the oldest first."""
        yield from _held(context, superseded_go=self.superseded_go)

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Retire the intervals."""
        return retire_items(context, items)


def retiring(context: Context) -> frozenset[str]:
    """Return the names of the intervals that a run retires now."""
    found = _held(context, superseded_go=True)
    return frozenset(each.item.name for each in found if isinstance(each, Expired))


def _held(context: Context, *, superseded_go: bool) -> Iterator[Expired | Kept | Excess]:
    """Yield what was begun, and what the rule does not keep."""
    begun = [one for name in context.look.intervals() if (one := _begun(context, name))]
    yield from begun
    part = context.spec.retention
    rule = RetentionRule(
        keep=part.keep_intervals, keep_days=part.keep_intervals_days, max_bytes=part.max_bytes
    )
    if rule == RetentionRule():
        return
    whole = {each.item.name for each in begun}
    all_bytes = rule.max_bytes is not None  # else only what goes is measured
    found = [e for e in found_intervals(context, sized=all_bytes) if e.name not in whole]
    newest = newest_of(context, {each.name: each.end for each in found})
    user = partial(_user, context, newest)
    size = _kept_bytes if superseded_go else _all_bytes
    for each in held_against(rule, found, context.now, user, order=_end, size=size):
        yield each if isinstance(each, Excess) else _measured(context, each)


def _measured(context: Context, each: Expired | Kept) -> Expired | Kept:
    """Return what goes, or would, with its size, and the rule under its name in dataset.yaml."""
    item = with_sizes(context, cast("IntervalItem", each.item))
    return Expired(item, _named(each.why)) if isinstance(each, Expired) else Kept(item, each.why)


def _begun(context: Context, interval: str) -> Expired | None:
    """Return a retirement that a killed run began: it is completed, or taken back if in use."""
    is_retiring = context.folder.retirement(interval).name in context.look.names_in(
        context.folder.interval(interval)
    )
    if not is_retiring or (item := found_interval(context, interval)) is None:
        return None
    retirement = begun_retirement(context.folder, interval)
    if retirement is None:
        return None
    is_hidden = any(half_removed(context.look, interval))
    if not is_hidden and user_of(context, context.uses, item) is None:
        return None  # nothing is hidden yet: the rule of today decides
    return Expired(item, retirement.why or "a retirement that was begun")


def _named(why: str) -> str:
    """Return the part of the rule under its name in dataset.yaml."""
    return {"keep": "keep_intervals", "keep_days": "keep_intervals_days"}.get(
        (name := why.partition(":")[0]), name
    ) + why[len(name) :]


def _end(item: Item) -> datetime:
    return cast("IntervalItem", item).end


def _all_bytes(item: Item) -> int:
    return item.num_bytes


def _kept_bytes(item: Item) -> int:
    return cast("IntervalItem", item).kept_bytes


def _user(context: Context, newest: frozenset[str], item: Item) -> str | None:
    """Return who uses an interval, None if nobody does."""
    if item.name in newest:
        return "it is the newest, or gates of the next interval compare with it"
    return user_of(context, context.uses, cast("IntervalItem", item))
