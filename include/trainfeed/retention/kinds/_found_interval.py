"""A published interval as retention sees it: its generations, sizes, end and age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trainfeed.dataset import Manifest
from trainfeed.errors import FormatError, NotFoundError, WindowError
from trainfeed.intervals import parse_range, parse_time
from trainfeed.retention._context import Context
from trainfeed.retention._item import Item
from trainfeed.retention.kinds._found_version import published_at, size_of
from trainfeed.retention.kinds._generation_rule import superseded_by_rule
from trainfeed.specification import earlier_versions

__all__ = [
    "IntervalItem",
    "end_of_interval",
    "found_interval",
    "found_intervals",
    "interval_ends",
    "newest_of",
]


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
    numbers = _numbers(context, name)
    if not numbers:
        return None
    places = [folder.version(name, number) for number in numbers]
    sizes = {number: _size(context, folder.version(name, number)) for number in numbers}
    gone = [each for each in superseded_by_rule(context, name) if not context.uses.why(name, each)]
    end = end_of_interval(context, name, numbers[-1])
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


def _size(context: Context, place: Path) -> int:
    """Return the size of a version, which never changes."""
    if place not in context.sizes:
        context.sizes[place] = size_of(place)
    return context.sizes[place]


def interval_ends(context: Context) -> dict[str, datetime]:
    """Return the ends of the intervals that have a generation with files; sizes are not read."""
    newest = {name: _numbers(context, name) for name in context.folder.intervals()}
    return {
        name: end_of_interval(context, name, numbers[-1])
        for name, numbers in newest.items()
        if numbers
    }


def newest_of(context: Context, ends: Mapping[str, datetime]) -> frozenset[str]:
    """Return the intervals that the gates of the next one compare with, at least the newest.

    Args:
        context: The data set.
        ends: The end of each interval that has files.
    """
    ordered = sorted(ends, key=lambda name: (ends[name], name))
    return frozenset(ordered[-earlier_versions(context.spec.quality) :])


def _numbers(context: Context, name: str) -> tuple[int, ...]:
    """Return the generations of an interval that have files, ascending."""
    folder = context.folder
    numbers = range(1, folder.last_generation(name) + 1)
    return tuple(number for number in numbers if folder.version(name, number).is_dir())


def end_of_interval(context: Context, name: str, generation: int | None) -> datetime:
    """Return the end of an interval, also of a former schedule.

    Args:
        context: The data set.
        name: The interval.
        generation: A generation of it, whose manifest tells the end; None if there is none.
    """
    try:
        return context.spec.schedule_model().interval_named(name).end
    except WindowError:
        pass
    try:
        if generation is None:
            return parse_range(name).end
        manifest, _ = Manifest.read(context.folder.version(name, generation))
        return parse_time(manifest.interval.end)
    except (FormatError, NotFoundError, WindowError):
        # Its bytes count, and its age does not: it began to be in use now.
        return context.now.astimezone(UTC)
