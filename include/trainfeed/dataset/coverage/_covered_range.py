"""Finds the versions of a range or of named intervals, and what is missing between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trainfeed.dataset.coverage._contiguity import (
    Span,
    Times,
    Uncovered,
    end_of,
    require_disjoint,
    skip_of,
    span_of,
    start_of,
    uncovered,
)
from trainfeed.dataset.coverage._coverage_state import Coverage
from trainfeed.dataset.layout import DatasetFolder, is_name
from trainfeed.dataset.retirements import retirement_of
from trainfeed.dataset.schedules import read_schedule
from trainfeed.errors import WindowError
from trainfeed.intervals import (
    Interval,
    Schedule,
    TimeRange,
    intervals_in,
    name_runs,
    parse_range,
    range_text,
)

if TYPE_CHECKING:
    from trainfeed.dataset.version import Version

__all__ = ["cover", "cover_named", "holes_between", "published_in"]

# Length of the date that begins every name.
_DAY: Final = len("2026-01-01")


def cover_named(
    folder: DatasetFolder,
    names: Sequence[str],
    *,
    generation_of: Callable[[str], int | None] | None = None,
    window_of: Schedule | None = None,
) -> Coverage:
    """Find intervals by their names.

    Args:
        folder: The data set.
        names: Names of intervals.
        generation_of: Returns the generation to take of an interval; by default the one that
            readers get.
        window_of: The schedule that has the names one after the other: then versions must also
            follow each other without a hole. None for any names.

    Raises:
        ConfigError: A name is not valid as that of an interval, or versions of a window overlap.
        FormatError: A manifest or a marker is damaged.
        StorageError: The publication root refused or failed.
    """
    generations = {name: (generation_of or folder.readable_generation)(name) for name in names}
    gaps = [name for name, generation in generations.items() if generation is None]
    skips = {name: skip for name in gaps if (skip := skip_of(folder, name)) is not None}
    missing = tuple(name for name in gaps if name not in skips)
    versions = [
        _opened(folder, name, number) for name, number in generations.items() if number is not None
    ]
    asked = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    found = Coverage(folder, asked, tuple(versions), missing, tuple(skips.values()), missing)
    if window_of is None or len(versions) < 2:
        return found
    return _without_holes(found, window_of)


def _without_holes(found: Coverage, schedule: Schedule) -> Coverage:
    """Return the state of a window with the holes between its versions."""
    versions = sorted(found.versions, key=start_of)
    require_disjoint(found.folder, versions)
    whole = start_of(versions[0]), end_of(versions[-1])
    left = uncovered(found.folder, Times(map(span_of, versions)), schedule, whole)
    names = [i.name for i in left.open_intervals if i.name not in found.missing]
    pieces = tuple(range_text(*piece) for piece in left.pieces)
    known = {skip.interval for skip in found.skipped}
    return Coverage(
        found.folder,
        found.asked,
        found.versions,
        (*found.missing, *names, *pieces),
        (*found.skipped, *(skip for skip in left.skipped if skip.interval not in known)),
        (*found.missing, *names, *pieces),
        left.accepted,
        pieces,
    )


def cover(folder: DatasetFolder, asked: str) -> Coverage:
    """Find the intervals that start in a range.

    A single name of a published interval is found without listing a folder. Otherwise versions must
    follow each other, by their manifests; where the range begins or ends without a version, the
    nearest one outside is opened, too.

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
    names = folder.intervals()
    near = _near(folder, names, span)
    opened = [_opened(folder, name, number) for name, number in near.items() if number is not None]
    versions = sorted((each for each in opened if start_of(each) in span), key=start_of)
    require_disjoint(folder, versions)
    if schedule is None and not versions:
        return Coverage(folder, asked, (), (asked,), (), (asked,))
    before, after = _neighbours(folder, names, span, opened)
    spans = [span_of(each) for each in (*versions, before, after) if each is not None]
    if schedule is None and before is None:
        # A name may be shorter than the time of the tick, and no version says what is before it.
        spans.append((parse_range(versions[0].path.parent.name).start, start_of(versions[0])))
    published = Times(spans)
    left = uncovered(folder, published, schedule, (span.start, span.end))
    asked_for = [*left.open_intervals, *_inside(before, schedule, span)]
    hidden = [name for name, number in near.items() if number is None]
    others = {range_text(*piece): piece[0] for piece in left.pieces}
    others |= _gone(folder, hidden, published, left, span)
    decided = (*left.skipped, *left.accepted)
    if schedule is not None and not (versions or asked_for or others or decided):
        # Only a version that starts before the range covers it.
        asked_for = intervals_in(schedule, span)
    runs = {run: parse_range(run).start for run in name_runs(sorted(asked_for, key=_start))}
    starts = {each.name: each.start for each in asked_for}
    return Coverage(
        folder,
        span.text,
        tuple(versions),
        _in_order(starts | others),
        left.skipped,
        _in_order(runs | others),
        left.accepted,
        () if schedule is None else tuple(others),
    )


def holes_between(folder: DatasetFolder) -> tuple[Sequence[Span], Sequence[Interval]]:
    """Return what no decision closes between all versions.

    All manifests are read: where versions overlap, one that starts days before a hole may reach
    into it.

    Returns:
        The parts of holes that no interval of the schedule has; and the intervals of the schedule
        that lie in holes as a whole.

    Raises:
        WindowError: More intervals are missing than a list may have.
        FormatError: A manifest, a marker, a decision or the recorded schedule is damaged.
        StorageError: The publication root refused or failed.
    """
    numbers = {name: folder.readable_generation(name) for name in folder.intervals()}
    versions = [_opened(folder, name, number) for name, number in numbers.items() if number]
    if not versions:
        return (), ()
    whole = min(map(start_of, versions)), max(map(end_of, versions))
    left = uncovered(folder, Times(map(span_of, versions)), read_schedule(folder), whole)
    return left.pieces, left.intervals


def _start(interval: Interval) -> datetime:
    return interval.start


def _in_order(times: Mapping[str, datetime]) -> tuple[str, ...]:
    return tuple(sorted(times, key=lambda text: (times[text], text)))


def _near(folder: DatasetFolder, names: Sequence[str], span: TimeRange) -> dict[str, int | None]:
    """Return the intervals that may start in a span, with the generation for readers or None."""
    return {name: folder.readable_generation(name) for name in names if _may_start_in(name, span)}


def _neighbours(
    folder: DatasetFolder, names: Sequence[str], span: TimeRange, opened: Sequence[Version]
) -> tuple[Version | None, Version | None]:
    """Return the versions before and behind a span, each only if nothing covers that end of it.

    Args:
        folder: The data set.
        names: Its intervals, in order.
        span: The span.
        opened: The versions of the intervals that may start in it.
    """
    rest = Times(span_of(each) for each in opened if start_of(each) in span).rest(
        span.start, span.end
    )
    before = after = None
    if rest and rest[0][0] == span.start:
        near = [each for each in opened if start_of(each) < span.start]
        far = (n for n in reversed(names) if (at := _named(n)) and at.end <= span.start)
        before = max([*near, *_nearest(folder, far)], key=end_of, default=None)
    if rest and rest[-1][1] == span.end:
        near = [each for each in opened if start_of(each) >= span.end]
        far = (n for n in names if (at := _named(n)) and span.end <= at.start)
        after = min([*near, *_nearest(folder, far)], key=start_of, default=None)
    return before, after


def _nearest(folder: DatasetFolder, names: Iterable[str]) -> list[Version]:
    """Return the first version, and the first ones of its day whose names have another length.

    Names of one length sort like their intervals; a day may sort before an hour that it follows.
    """
    found: dict[int, Version] = {}
    day = ""
    for name in names:
        if found and name[:_DAY] != day:
            break
        if len(name) not in found and (number := folder.readable_generation(name)) is not None:
            found[len(name)] = _opened(folder, name, number)
            day = name[:_DAY]
    return list(found.values())


def _inside(
    before: Version | None, schedule: Schedule | None, span: TimeRange
) -> Iterator[Interval]:
    """Yield the intervals of a span that lie in a version that starts before it as a whole.

    A week before a change to days has them, and a range that begins in the week does not have it.
    """
    if before is None or schedule is None:
        return
    for each in schedule.overlapping(span.start, min(end_of(before), span.end)):
        if span.start <= each.start and each.end <= end_of(before):
            yield each


def _gone(
    folder: DatasetFolder,
    hidden: Sequence[str],
    published: Times,
    left: Uncovered,
    span: TimeRange,
) -> dict[str, datetime]:
    """Return intervals that had versions, or were retired, beyond all versions and the schedule."""
    known = [(each.start, each.end) for each in left.intervals]
    known += [*left.pieces, *(each.span for each in left.accepted)]
    accounted = Times(known)
    found = {}
    for name in hidden:
        named = parse_range(name)
        for part in published.rest(max(named.start, span.start), min(named.end, span.end)):
            is_beyond = None in published.around(*part)
            if is_beyond and accounted.rest(*part) and _was_there(folder, name):
                found[name] = named.start
    return found


def _was_there(folder: DatasetFolder, name: str) -> bool:
    return folder.last_generation(name) > 0 or retirement_of(folder, name) is not None


def published_in(folder: DatasetFolder, span: TimeRange) -> dict[str, int]:
    """Return the intervals with a name in ``span``, in order, with the generation for readers.

    No manifest is opened, so a damaged version is in the result, too.
    """
    near = _near(folder, folder.intervals(), span)
    return {name: number for name, number in near.items() if number is not None}


def _may_start_in(name: str, span: TimeRange) -> bool:
    """Return whether an interval of that name may start in ``span``: names may be cut."""
    named = _named(name)
    return named is not None and named.start < span.end and span.start < named.end


def _named(name: str) -> TimeRange | None:
    try:
        return parse_range(name)
    except WindowError:
        return None


def _opened(folder: DatasetFolder, name: str, number: int) -> Version:
    # On demand: the status, which opens no version, starts without numpy.
    from trainfeed.dataset.version import Version

    return Version.resolve(folder, name, number)
