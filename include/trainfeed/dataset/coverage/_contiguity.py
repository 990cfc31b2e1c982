"""How published versions follow each other in time, by the intervals in their manifests.

In every schedule an interval ends where the next one starts: without intervals at weekends, that of
Friday reaches to Monday. The versions alone therefore show the holes between them, whatever
schedule is recorded now. A decision may close a hole, or a part of it: a skipped interval, or a
hole that a person accepted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from trainfeed.dataset.accepted_holes import AcceptedHole, accepted_holes
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.retirements import retirement_of
from trainfeed.dataset.skips import Skip, read_skip
from trainfeed.errors import ConfigError, WindowError
from trainfeed.intervals import Interval, Schedule, parse_range, parse_time

if TYPE_CHECKING:
    from trainfeed.dataset.version import Version

__all__ = [
    "Span",
    "Times",
    "Uncovered",
    "end_of",
    "require_disjoint",
    "skip_of",
    "span_of",
    "start_of",
    "uncovered",
]

# Start and end, aware UTC.
Span: TypeAlias = tuple[datetime, datetime]

# More than ten years of hours; a longer list would take too long to make.
_MAX_INTERVALS: Final = 100_000
# So many units of its name, as days, an interval is looked for behind its name if it was built
# once; one that has only plans, of which there are few, at any later time.
_MOST_UNITS: Final = 100
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
    most: int | None = _MAX_INTERVALS,
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
    skips = _skips(folder, published, parts, fitting, find_skip or (lambda n: skip_of(folder, n)))
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
) -> list[tuple[Skip, Span]]:
    """Return the skipped intervals that close something of the parts, with what they close."""
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
        most = (named[1] - named[0]) * _MOST_UNITS
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
    try:
        named = parse_range(name)
    except WindowError:
        return None
    return named.start, named.end


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


@lru_cache(maxsize=4096)
def _moment(text: str) -> datetime:
    # A version is asked several times, and shares its ends with its neighbours.
    return parse_time(text)
