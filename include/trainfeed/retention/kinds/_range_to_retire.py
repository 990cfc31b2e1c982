"""Intervals that a person retires: those that start in a range, whatever the rules say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from trainfeed.dataset.retire import retirement_of
from trainfeed.errors import WindowError
from trainfeed.intervals import TimeRange, intervals_in, parse_range
from trainfeed.retention._context import Context
from trainfeed.retention._item import Expired, Kept
from trainfeed.retention.kinds._found_interval import (
    IntervalItem,
    end_of_interval,
    found_interval,
    interval_ends,
    newest_of,
)
from trainfeed.retention.kinds._interval_removal import retire_items, user_of

__all__ = ["RangeToRetire"]


@dataclass(frozen=True)
class RangeToRetire:
    """The intervals of a range, with those that were skipped or never published.

    Attributes:
        span: The range.
        why: The reason of the person.
    """

    span: TimeRange
    why: str
    name: ClassVar[str] = "intervals"

    def find(self, context: Context) -> Iterator[Expired | Kept]:
        """Yield the intervals that are not retired yet, by name; what is needed is kept.

        An interval that is retired, and whose files a killed call has left, is yielded again.

        Raises:
            WindowError: No interval starts in the range.
        """
        ends = interval_ends(context)
        for interval in self.intervals(context):
            found = found_interval(context, interval)
            if found is not None or retirement_of(context.look, interval) is None:
                item = found or _unpublished(context, interval)
                why = _needed(context, item, ends)
                yield Expired(item, self.why) if why is None else Kept(item, why)

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Retire the intervals."""
        return retire_items(context, items)

    def intervals(self, context: Context) -> list[str]:
        """Return the names of all intervals of the range, sorted, also of retired ones.

        Raises:
            WindowError: No interval starts in the range.
        """
        folder = context.folder
        known = {*folder.intervals(), *folder.planned_intervals()}
        named = {name for name in known if _starts_in(name, self.span)}
        try:
            scheduled = intervals_in(context.spec.schedule_model(), self.span)
        except WindowError:
            if not named:
                raise
            scheduled = []
        return sorted(named | {each.name for each in scheduled})


def _starts_in(name: str, span: TimeRange) -> bool:
    try:
        return parse_range(name).start in span
    except WindowError:
        return False


def _unpublished(context: Context, interval: str) -> IntervalItem:
    """Return an interval without files: nothing of it goes, and it is not built any more."""
    end = end_of_interval(context, interval, None)
    place = (str(context.folder.interval(interval)),)
    return IntervalItem("intervals", interval, 0, end, place, (), 0, end)


def _needed(context: Context, item: IntervalItem, ends: dict[str, datetime]) -> str | None:
    """Return what needs an interval, None if nothing does."""
    if item.name in newest_of(context, ends):
        return "it is the newest, or gates of the next interval compare with it"
    if not any(end > item.end for end in ends.values()):
        return "no later interval is published, so builds go on here"
    return user_of(context, context.uses, item)
