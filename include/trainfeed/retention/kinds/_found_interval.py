"""A published interval as retention sees it: its generations, sizes, end and age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from trainfeed.dataset import Manifest
from trainfeed.errors import FormatError, NotFoundError, WindowError
from trainfeed.intervals import parse_range, parse_time
from trainfeed.retention._context import Context
from trainfeed.retention._item import Item
from trainfeed.retention.kinds._found_version import size_of
from trainfeed.retention.kinds._generation_rule import superseded_by_rule
from trainfeed.specification import earlier_versions

__all__ = [
    "IntervalItem",
    "end_of_interval",
    "found_interval",
    "found_intervals",
    "interval_ends",
    "newest_of",
    "with_sizes",
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


def found_intervals(context: Context, *, sized: bool) -> list[IntervalItem]:
    """Return the intervals that have a generation with files.

    Args:
        context: The data set.
        sized: Whether sizes are read, file by file; else all are 0 until ``with_sizes``.
    """
    names = context.look.intervals()
    found = [each for name in names if (each := _found(context, name)) is not None]
    return [with_sizes(context, each) for each in found] if sized else found


def found_interval(context: Context, name: str) -> IntervalItem | None:
    """Return an interval, None if no generation of it has files."""
    found = _found(context, name)
    return None if found is None else with_sizes(context, found)


def with_sizes(context: Context, item: IntervalItem) -> IntervalItem:
    """Return an interval with the sizes of its generations."""
    name, places = item.name, map(Path, item.places)
    sizes = dict(zip(item.generations, (_size(context, each) for each in places), strict=True))
    gone = [each for each in superseded_by_rule(context, name) if not context.uses.why(name, each)]
    total = sum(sizes.values())
    kept = total - sum(sizes.get(each, 0) for each in gone)  # 0 for what is no folder
    return replace(item, num_bytes=total, kept_bytes=kept)


def _found(context: Context, name: str) -> IntervalItem | None:
    """Return an interval whose sizes were not read."""
    numbers = _numbers(context, name)
    if not numbers:
        return None
    end = end_of_interval(context, name, numbers[-1])
    return IntervalItem(
        kind="intervals",
        name=name,
        num_bytes=0,
        since=max(end, context.look.published_at(name, numbers[-1])),
        places=tuple(str(context.look.version(name, number)) for number in numbers),
        generations=numbers,
        kept_bytes=0,
        end=end,
    )


def _size(context: Context, place: Path) -> int:
    """Return the size of a version, which never changes."""
    if place not in context.sizes:
        context.sizes[place] = size_of(place)
    return context.sizes[place]


def interval_ends(context: Context) -> dict[str, datetime]:
    """Return the ends of the intervals that have a generation with files; sizes are not read."""
    newest = {name: _numbers(context, name) for name in context.look.intervals()}
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
    numbers = range(1, context.look.last_generation(name) + 1)
    return tuple(number for number in numbers if context.look.has_folder(name, number))


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
