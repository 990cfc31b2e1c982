"""The versions of a range: how they follow each other in time, and what is missing between them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from trainfeed.core.intervals import (
    MAX_INTERVALS,
    Interval,
    Schedule,
    TimeRange,
    intervals_in,
    name_runs,
    parse_range,
    parse_time,
    range_text,
)
from trainfeed.errors import ConfigError, NotFoundError, WindowError, WindowIncompleteError
from trainfeed.versions.layout import DatasetFolder, is_name
from trainfeed.versions.retire import missing_remedies, retirement_of, told_missing
from trainfeed.versions.schedule import read_schedule
from trainfeed.versions.skip import AcceptedHole, Skip, accepted_holes, read_skip

if TYPE_CHECKING:
    from trainfeed.versions.version import Version


# --- How published versions follow each other in time, by the intervals in their manifests

# Start and end, aware UTC.
Span: TypeAlias = tuple[datetime, datetime]

# So many units of its name, as days, an interval is looked for behind its name if it was built
# once; one that has only plans, of which there are few, at any later time.
_MOST_UNITS: Final = 100
_ONE_DAY: Final = timedelta(days=1)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


class Times:
    """The times that spans cover together.

    Args:
        spans: The spans, in any order; some may touch or overlap.
    """

    def __init__(self, spans: Iterable[Span]) -> None:
        self._starts: list[datetime] = []
        self._ends: list[datetime] = []
        for start, end in sorted(spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def rest(self, start: datetime, end: datetime) -> list[Span]:
        """Return the parts of ``[start, end)`` that are not covered, in order."""
        found = []
        number = bisect_right(self._ends, start)
        while start < end:
            following = self._starts[number] if number < len(self._starts) else end
            if start < following:
                found.append((start, min(following, end)))
            start = self._ends[number] if number < len(self._starts) else end
            number += 1
        return found

    def around(self, start: datetime, end: datetime) -> tuple[datetime | None, datetime | None]:
        """Return the end of the span before ``[start, end)`` and the start of the one after it."""
        before, after = bisect_right(self._ends, start), bisect_left(self._starts, end)
        return (
            self._ends[before - 1] if before else None,
            self._starts[after] if after < len(self._starts) else None,
        )


@dataclass(frozen=True)
class Uncovered:
    """What published versions do not cover of a span.

    Attributes:
        intervals: Intervals of the schedule that lie in holes as a whole, in order; decided or not.
        open_intervals: Those that start in the span, and that no decision closes.
        pieces: The other parts of holes, in order, that no decision closes.
        skips: The skipped intervals that close a part, with the time that each closes.
        accepted: The accepted holes that close a part.
    """

    intervals: tuple[Interval, ...] = ()
    open_intervals: tuple[Interval, ...] = ()
    pieces: tuple[Span, ...] = ()
    skips: tuple[tuple[Skip, Span], ...] = ()
    accepted: tuple[AcceptedHole, ...] = ()

    @property
    def skipped(self) -> tuple[Skip, ...]:
        """The skipped intervals that close a part, in order."""
        return tuple(skip for skip, _ in self.skips)


def uncovered(
    folder: DatasetFolder,
    published: Times,
    schedule: Schedule | None,
    span: Span,
    *,
    find_skip: Callable[[str], Skip | None] | None = None,
    most: int | None = MAX_INTERVALS,
) -> Uncovered:
    """Return what published versions do not cover of a span, and the decisions about it.

    Between two versions every part of a hole counts, whatever the schedule is. Before the first
    and behind the last one only the schedule says what should be there; without a schedule, all of
    the span should.

    Args:
        folder: The data set.
        published: The times of its versions: those in the span, and the neighbours of its ends.
        schedule: The schedule of today, or None.
        span: The span.
        find_skip: Returns the decision to skip the interval of a name; by default from its marker.
        most: How many intervals may be uncovered.

    Raises:
        WindowError: More than ``most`` intervals are not covered.
        FormatError: A marker or a decision is damaged.
        StorageError: The publication root refused or failed.
    """
    parts = published.rest(*span)
    if not parts:
        return Uncovered()
    fitting: list[Interval] = []
    loose: list[Span] = []
    for part in parts:
        if schedule is None:
            loose.append(part)
            continue
        found, left = _fitted(schedule, part, published.around(*part), span[0])
        fitting += found
        loose += left
        if most is not None and len(fitting) > most:
            raise WindowError(
                f"expected at most {most} intervals without a version, the range has more; ask for"
                " a shorter range"
            )
    accepted = [each for each in accepted_holes(folder) if _overlaps(each.span, parts)]
    # The name of a day in a zone is that of an hour, too.
    unit = _ONE_DAY if schedule is not None and schedule.zone is not None else timedelta(0)
    find_skip = find_skip or (lambda name: skip_of(folder, name))
    skips = _skips(folder, published, parts, fitting, find_skip, unit)
    closed = Times([*(each.span for each in accepted), *(times for _, times in skips)])
    starts = {interval.start for interval in fitting}
    return Uncovered(
        tuple(fitting),
        tuple(i for i in fitting if span[0] <= i.start and closed.rest(i.start, i.end)),
        tuple(piece for each in loose for piece in closed.rest(*each)),
        # An interval that starts before the span was not asked for.
        tuple((s, at) for s, at in skips if span[0] <= at[0] or at[0] not in starts),
        tuple(accepted),
    )


def _fitted(
    schedule: Schedule,
    part: Span,
    within: tuple[datetime | None, datetime | None],
    begin: datetime,
) -> tuple[list[Interval], list[Span]]:
    """Return the intervals that fit into the hole with a part, and what they leave of the part.

    Args:
        schedule: The schedule of today.
        part: The part of the hole that lies in the span.
        within: Start and end of the hole; None where no version is.
        begin: Start of the span. An interval that starts before it was not asked for, also if the
            schedule now begins later or ends earlier.
    """
    start, end = within
    is_between = start is not None and end is not None
    fitting, beside, others = [], [], []
    for each in schedule.overlapping(*part, is_bounded=not is_between):
        fits = (start is None or start <= each.start) and (end is None or each.end <= end)
        is_known = schedule.first <= each.start and (
            schedule.last is None or each.start <= schedule.last
        )
        if fits and is_known:
            fitting.append(each)
        elif fits and each.start < begin:
            beside.append((each.start, each.end))
        elif not is_between:
            others.append((max(each.start, part[0]), min(each.end, part[1])))
    if not is_between:
        return fitting, others
    return fitting, Times([*((i.start, i.end) for i in fitting), *beside]).rest(*part)


def _skips(
    folder: DatasetFolder,
    published: Times,
    parts: Sequence[Span],
    fitting: Sequence[Interval],
    find_skip: Callable[[str], Skip | None],
    unit: timedelta,
) -> list[tuple[Skip, Span]]:
    """Return the skipped intervals that close something of the parts, with what they close.

    Intervals are at most some number of units long: of the time that the name means, or ``unit``.
    """
    holes = []
    for start, end in parts:
        before, after = published.around(start, end)
        holes.append((start if before is None else before, end if after is None else after))
    by_name = {interval.name: (interval.start, interval.end) for interval in fitting}
    built = set(folder.intervals())
    found = []
    for name in folder.planned_intervals():
        named = _time_of(name)
        if named is None:
            continue
        # It may begin at the end of its name. That of a Friday reaches to Monday, over versions of
        # another schedule, too: how long it is, only its marker says.
        most = max(named[1] - named[0], unit) * _MOST_UNITS
        is_bounded = name in built and named[1] < _LAST - most
        possible = named[0], named[1] + most if is_bounded else _LAST
        if not _overlaps(possible, holes) or (skip := find_skip(name)) is None:
            continue
        closes = skip.span or by_name.get(name)
        if closes is None and not _has_finer_names(folder, name):
            closes = _unit_of(named, published)
        if closes is not None and closes[0] < closes[1] and _overlaps(closes, parts):
            found.append((skip, closes))
    return sorted(found, key=lambda each: each[1])


def _has_finer_names(folder: DatasetFolder, name: str) -> bool:
    return any(each.startswith(name) and each != name for each in folder.intervals())


def _unit_of(named: Span, published: Times) -> Span | None:
    """Return what a marker without start and end closes, if no interval of today has its name.

    A name gives the start of an interval up to its time of day, or minute; and an interval is at
    least as long as that unit. Its time of day is that of the versions around the hole, if they
    agree; if not, or if versions of a finer schedule have names in the unit, nothing is known.
    """
    rest = published.rest(*named)
    start, end = published.around(*rest[0]) if rest else (None, None)
    unit = named[1] - named[0]
    if start is None or end is None or (end - start) % unit:
        return None
    begin = named[0] + (start - named[0]) % unit
    return begin, begin + unit


def _overlaps(span: Span, others: Sequence[Span]) -> bool:
    """Return whether a span has a part of one of others, which are in order and disjoint."""
    number = bisect_right(others, span[0], key=lambda each: each[1])
    return number < len(others) and others[number][0] < span[1]


def _time_of(name: str) -> Span | None:
    named = _named(name)
    return None if named is None else (named.start, named.end)


def skip_of(folder: DatasetFolder, name: str) -> Skip | None:
    """Return the decision to skip an interval; it was left out, and then retired: it is missing."""
    skip = read_skip(folder, name)
    return skip if skip is None or retirement_of(folder, name) is None else None


def require_disjoint(folder: DatasetFolder, versions: Sequence[Version]) -> None:
    """Refuse versions, in order of time, whose intervals overlap.

    Raises:
        ConfigError: Two intervals overlap.
    """
    for earlier, later in pairwise(versions):
        if start_of(later) < end_of(earlier):
            raise ConfigError(
                f"{earlier.name} and {later.name} of data set {folder.name!r} overlap, so a range"
                " would give samples twice: the schedule was changed between them; list the"
                " intervals to read with open_intervals"
            )


def start_of(version: Version) -> datetime:
    """Return the start of a version's interval, aware UTC."""
    return _moment(version.manifest.interval.start)


def end_of(version: Version) -> datetime:
    """Return the end of a version's interval, aware UTC; the next one starts there."""
    return _moment(version.manifest.interval.end)


def span_of(version: Version) -> Span:
    """Return start and end of a version's interval, aware UTC."""
    return start_of(version), end_of(version)


# The moments of three years of hours.
@lru_cache(maxsize=1 << 15)
def _moment(text: str) -> datetime:
    # A version is asked several times, and shares its ends with its neighbours.
    return parse_time(text)


# --- The result of a look for intervals, and what is said if some of them are missing

MISSING_POLICIES: Final = ("fail", "skip")

_SHOWN: Final = 10


@dataclass(frozen=True)
class Coverage:
    """The state of a range or list of intervals.

    Attributes:
        folder: The data set.
        asked: The request, as in messages.
        versions: The published versions, in order of time, or of the list.
        missing: Names of the intervals that are neither published nor skipped; and the ranges
            between versions into which no interval of the schedule fits, or without a recorded
            schedule all ranges without published versions.
        skipped: The decisions to skip intervals.
        missing_runs: The same as ``missing``, with neighbours joined to ``first/last``.
        accepted: The holes between versions that a person accepted.
        unfit: The members of ``missing`` that are no intervals of the schedule.
        local: What was asked for instead of ``asked``, if days or months of a zone were.
    """

    folder: DatasetFolder
    asked: str
    versions: tuple[Version, ...]
    missing: tuple[str, ...]
    skipped: tuple[Skip, ...]
    missing_runs: tuple[str, ...] = field(repr=False, default=())
    accepted: tuple[AcceptedHole, ...] = ()
    unfit: tuple[str, ...] = field(repr=False, default=())
    local: str | None = None

    @property
    def both(self) -> str:
        """What was asked for, in messages: also in the days or months of a zone."""
        return self.asked if self.local is None else f"{self.asked} ({self.local})"

    def require(self, missing: str) -> None:
        """Refuse missing intervals, unless they may be skipped, and a range without any version.

        Args:
            missing: ``fail`` or ``skip``.

        Raises:
            ConfigError: ``missing`` is neither of these.
            WindowIncompleteError: Intervals are missing, and ``missing`` is ``fail``.
            NotFoundError: Nothing of the range is published.
        """
        check_policy(missing)
        if not self.versions:
            raise NotFoundError(
                f"data set {self.folder.name!r} has no published version of {self.both} in"
                f" {self.folder.path}; {self.remedy or self._decided()}"
            )
        if self.missing and missing == "fail":
            count = len(self.missing) + len(self.versions) + len(self.skipped)
            error = WindowIncompleteError(
                f"data set {self.folder.name!r} lacks {len(self.missing)} of {count} intervals of"
                f" {self.both}: {_few(self.missing)}; nothing was read; {self.remedy}; or read"
                " what is there with missing='skip'"
            )
            error.missing = self.missing
            raise error

    @property
    def remedy(self) -> str:
        """What to do about the missing parts, with who retired or withdrew them; "" if none is."""
        if not self.missing_runs:
            return ""
        runs = [run for run in self.missing_runs if run not in self.unfit]
        names = [name for name in self.missing if name not in self.unfit]
        parts = missing_remedies(self.folder, names, runs, self._unknown()) if runs else []
        if self.unfit:
            parts.append(
                f"no interval of the schedule of now fits into {_few(self.unfit)}: correct the"
                " schedule, or go without: trainfeed accept-hole"
                f" {self.folder.name}/{self.unfit[0]} --why WHY"
            )
        return "; ".join(parts) + told_missing(self.folder, self.missing)

    def _unknown(self) -> str:
        if self.folder.schedule.exists():
            return ""
        return (
            f" (whether intervals should start there is not known without {self.folder.schedule};"
            " any build of it records its schedule)"
        )

    def _decided(self) -> str:
        for skip in self.skipped:
            return f"all were decided to be left out: {skip.interval} on {skip.at}, {skip.why}"
        hole = self.accepted[0]
        return f"there is a hole, {hole.range}, {hole.told}"


def check_policy(missing: str) -> None:
    """Refuse a value that is no policy for missing intervals.

    Raises:
        ConfigError: ``missing`` is no policy.
    """
    if missing not in MISSING_POLICIES:
        raise ConfigError(
            f"expected missing as one of {', '.join(MISSING_POLICIES)}, got {missing!r}"
        )


def _few(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" … and {more} more" if more > 0 else "")


# --- Finds the versions of a range or of named intervals, and what is missing between them

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
    versions = _all_opened(folder, generations)
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
    pieces = tuple(range_text(*piece, schedule.zone) for piece in left.pieces)
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
        asked: A range, in the forms of ``trainfeed.core.intervals.parse_range``.

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
    zone = None if schedule is None else schedule.zone
    if zone is not None:
        span = parse_range(asked, zone)
    names = folder.intervals()
    near = _near(folder, names, span)
    opened = _all_opened(folder, near)
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
    others = {range_text(*piece, zone): piece[0] for piece in left.pieces}
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
        span.local,
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
    versions = _all_opened(folder, numbers)
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
            found[len(name)], *_ = _all_opened(folder, {name: number})
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


def _all_opened(folder: DatasetFolder, generations: Mapping[str, int | None]) -> list[Version]:
    # On demand: the status, which opens no version, starts without numpy.
    from trainfeed.versions.version import resolve_all

    return resolve_all(folder, generations)
