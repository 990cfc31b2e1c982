"""A published interval as retention sees it: its generations, sizes, end and age."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from trainfeed.dataset import Manifest
from trainfeed.errors import FormatError, NotFoundError, WindowError
from trainfeed.intervals import Schedule, parse_time
from trainfeed.retention._context import Context
from trainfeed.retention._item import Item
from trainfeed.retention.kinds._found_version import published_at, size_of
from trainfeed.retention.kinds._generation_rule import superseded_by_rule

__all__ = ["IntervalItem", "found_interval", "found_intervals"]


@dataclass(frozen=True)
class IntervalItem(Item):
    """All generations of an interval that have files.

    Attributes:
        generations: Their numbers, ascending, those of withdrawn and of half removed ones, too.
        kept_bytes: Size of those that are not superseded by rule; these count for ``max_bytes``.
        end: End of the interval, aware UTC.
    """

    generations: tuple[int, ...]
    kept_bytes: int
    end: datetime


def found_intervals(context: Context) -> list[IntervalItem]:
    """Return the intervals that have a generation with files."""
    found = (found_interval(context, name) for name in context.folder.intervals())
    return [each for each in found if each is not None]


def found_interval(context: Context, name: str) -> IntervalItem | None:
    """Return an interval, None if no generation of it has files."""
    folder = context.folder
    numbers = tuple(
        number
        for number in range(1, folder.last_generation(name) + 1)
        if folder.version(name, number).is_dir()
    )
    if not numbers:
        return None
    places = [folder.version(name, number) for number in numbers]
    sizes = dict(zip(numbers, map(size_of, places), strict=True))
    gone = [each for each in superseded_by_rule(context, name) if not context.uses.why(name, each)]
    end = _end(context, context.spec.schedule_model(), name, numbers[-1])
    return IntervalItem(
        kind="intervals",
        name=name,
        num_bytes=sum(sizes.values()),
        since=max(end, published_at(places[-1])),
        places=tuple(map(str, places)),
        generations=numbers,
        kept_bytes=sum(sizes.values()) - sum(sizes[each] for each in gone),
        end=end,
    )


def _end(context: Context, schedule: Schedule, name: str, generation: int) -> datetime:
    """Return the end of an interval, also of a former schedule."""
    try:
        return schedule.interval_named(name).end
    except WindowError:
        pass
    try:
        manifest, _ = Manifest.read(context.folder.version(name, generation))
        return parse_time(manifest.interval.end)
    except (FormatError, NotFoundError, WindowError):
        # Its bytes count, and its age does not: it began to be in use now.
        return context.now.astimezone(UTC)
