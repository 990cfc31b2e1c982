"""Finds the versions of a range or of named intervals, and what is missing between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from trainfeed.dataset.coverage._contiguity import (
    end_of,
    holes,
    require_disjoint,
    runs,
    start_of,
)
from trainfeed.dataset.coverage._coverage_state import Coverage
from trainfeed.dataset.layout import DatasetFolder, is_name
from trainfeed.dataset.retirements import retirement_of
from trainfeed.dataset.schedules import read_schedule
from trainfeed.dataset.skips import Skip, read_skip
from trainfeed.dataset.version import Version
from trainfeed.errors import WindowError
from trainfeed.intervals import (
    Interval,
    Schedule,
    TimeRange,
    intervals_in,
    name_runs,
    parse_range,
)

__all__ = ["cover", "cover_named", "published_in"]


def cover_named(
    folder: DatasetFolder,
    names: Sequence[str],
    *,
    generation_of: Callable[[str], int | None] | None = None,
) -> Coverage:
    """Find intervals by their names, without a look into the schedule.

    Args:
        folder: The data set.
        names: Names of intervals.
        generation_of: Returns the generation to take of an interval; by default the one that
            readers get.

    Raises:
        ConfigError: A name is not valid as that of an interval.
        FormatError: A manifest or a marker is damaged.
        StorageError: The publication root refused or failed.
    """
    generations = {name: (generation_of or folder.readable_generation)(name) for name in names}
    gaps = [name for name, generation in generations.items() if generation is None]
    skips = {name: skip for name in gaps if (skip := _skip_of(folder, name)) is not None}
    missing = tuple(name for name in gaps if name not in skips)
    versions = [
        Version.resolve(folder, name, number)
        for name, number in generations.items()
        if number is not None
    ]
    asked = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    return Coverage(folder, asked, tuple(versions), missing, tuple(skips.values()), missing)


def cover(folder: DatasetFolder, asked: str) -> Coverage:
    """Find the intervals that start in a range.

    A single name of a published interval is found without listing a folder.

    Args:
        folder: The data set.
        asked: A range, in the forms of ``trainfeed.intervals.parse_range``.

    Raises:
        WindowError: ``asked`` is no range, or the schedule has no interval there.
        ConfigError: Published intervals of the range overlap.
        FormatError: A manifest, a marker or the recorded schedule is damaged.
        StorageError: The publication root refused or failed.
    """
    span = parse_range(asked)
    if is_name(asked) and folder.readable_generation(asked) is not None:
        return cover_named(folder, [asked])
    schedule = read_schedule(folder)
    versions = list(_versions(folder, span))
    require_disjoint(folder, versions)
    if schedule is None:
        gaps = tuple(holes(folder, span, versions)) if versions else (asked,)
        return Coverage(folder, asked, tuple(versions), gaps, (), gaps)
    return _by_schedule(folder, span, schedule, versions)


def _by_schedule(
    folder: DatasetFolder, span: TimeRange, schedule: Schedule, versions: list[Version]
) -> Coverage:
    absent = _absent(span, schedule, versions)
    skips = {i.name: skip for i in absent if (skip := _skip_of(folder, i.name)) is not None}
    missing = [interval for interval in absent if interval.name not in skips]
    return Coverage(
        folder,
        span.text,
        tuple(versions),
        tuple(interval.name for interval in missing),
        tuple(skips.values()),
        tuple(name_runs(missing)),
    )


def _skip_of(folder: DatasetFolder, name: str) -> Skip | None:
    """Return the decision to skip an interval; it was left out, and then retired: it is missing."""
    skip = read_skip(folder, name)
    return skip if skip is None or retirement_of(folder, name) is None else None


def _absent(span: TimeRange, schedule: Schedule, versions: list[Version]) -> list[Interval]:
    """Return the intervals of the schedule that published versions do not cover completely.

    Versions may come from an earlier schedule: a published day covers its hours.
    """
    try:
        expected = intervals_in(schedule, span)
    except WindowError:
        if not versions:
            raise
        return []
    spans = [(start_of(first), end_of(last)) for first, last in runs(versions)]
    # Intervals and spans are both in order of time, so one pass over both finds the absent ones.
    absent, number = [], 0
    for interval in expected:
        while number < len(spans) and spans[number][1] <= interval.start:
            number += 1
        start, end = spans[number] if number < len(spans) else (interval.end, interval.end)
        if not (start <= interval.start and interval.end <= end):
            absent.append(interval)
    return absent


def published_in(folder: DatasetFolder, span: TimeRange) -> dict[str, int]:
    """Return the intervals with a name in ``span``, in order, with the generation for readers.

    No manifest is opened, so a damaged version is in the result, too.
    """
    found = {}
    for name in folder.intervals():
        if _may_start_in(name, span) and (number := folder.readable_generation(name)) is not None:
            found[name] = number
    return found


def _versions(folder: DatasetFolder, span: TimeRange) -> Iterator[Version]:
    """Yield the published versions of intervals that start in ``span``, in order of time."""
    for name, number in published_in(folder, span).items():
        version = Version.resolve(folder, name, number)
        if start_of(version) in span:
            yield version


def _may_start_in(name: str, span: TimeRange) -> bool:
    """Return whether an interval of that name may start in ``span``: names may be cut."""
    try:
        named = parse_range(name)
    except WindowError:
        return False
    return named.start < span.end and span.start < named.end
