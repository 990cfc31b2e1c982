"""The status of a data set, found from its folder alone: its intervals with their states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple

from trainfeed.core.canonical_json import JsonFields
from trainfeed.core.intervals import (
    MAX_INTERVALS,
    Interval,
    Schedule,
    TimeRange,
    format_time,
    intervals_in,
    parse_range,
    parse_time,
    range_text,
)
from trainfeed.errors import AccessDeniedError, FormatError, WindowError, WithdrawnError
from trainfeed.look.status.states import (
    Absent,
    Attempts,
    Expected,
    Gone,
    Judgement,
    Published,
    State,
    expected_of,
    gone_of,
    judge_absent,
    judge_published,
    withdrawn_since,
)
from trainfeed.look.status.versions import (
    FoundInterval,
    found_intervals,
    late_since,
    unread_offsets,
)
from trainfeed.versions import DatasetFolder, Skip, Unpublished, read_skip, read_unpublished
from trainfeed.versions.coverage import Times, Uncovered, skip_of, uncovered

# --- The status of a data set: its intervals with their states, and the time up to which all is in

# Intervals of these states have their records, as far as the source ever had them.
IN: Final[frozenset[State]] = frozenset({"published", "late", "empty"})
# Accepted losses: they hold the time back up to which all is in, but a range with them is in order.
_ACCEPTED: Final[frozenset[State]] = frozenset({"gap", "skipped", "accepted"})
# Holes that somebody decided on; most had versions, and have none any more.
_DECIDED: Final[frozenset[State]] = _ACCEPTED | {"withdrawn", "removed", "retired"}
_FAULTS: Final[frozenset[State]] = frozenset({"missing", "failed", "damaged", "unread"})


class IntervalStatus(NamedTuple):
    """One interval.

    Attributes:
        interval: Name of the interval; its range, for a hole into which no interval fits.
        state: Its one state.
        start: Start, seconds since 1970.
        end: End, likewise.
        since: Since when it has the state, likewise; None where that is not known.
        reason: Why, in one line; empty where the state says it all.
        generation: The generation that readers get, or None.
        samples: Number of its samples, or None.
    """

    interval: str
    state: State
    start: int
    end: int
    since: int | None
    reason: str
    generation: int | None
    samples: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the interval as commands print it."""
        times = {name: as_text(getattr(self, name)) for name in ("start", "end", "since")}
        return {**self._asdict(), **times}


@dataclass(frozen=True)
class DatasetStatus(
    JsonFields,
    also=("counts", "is_in_order"),
    without=("asked", "local"),
    names={"is_in_order": "in_order"},
):
    """The status of a data set.

    Attributes:
        dataset: Name of the data set.
        intervals: Of a range, the intervals that start in it; else every interval that is over;
            with the holes and decisions there, in order of time.
        asked: The range that was asked for, or None.
        complete_up_to: The largest time up to which every interval is published, without a recorded
            or found loss; None if the first interval is not.
        decided_up_to: The same, when losses and intervals that were decided to be left out count
            as complete.
        held_back_by: The interval that holds ``complete_up_to`` back; None if only time does.
        doubts: What the answer does not cover, one line each.
        local: Name of an interval → what its start is in the zone of the schedule; empty for UTC.
    """

    dataset: str
    intervals: tuple[IntervalStatus, ...]
    asked: str | None
    complete_up_to: int | None
    decided_up_to: int | None
    held_back_by: IntervalStatus | None
    doubts: tuple[str, ...]
    local: Mapping[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[State, int]:
        """State → number of intervals."""
        return dict(Counter(each.state for each in self.intervals))

    @property
    def is_damaged(self) -> bool:
        """Whether a manifest or a marker cannot be used."""
        return any(each.state == "damaged" for each in self.intervals)

    @property
    def is_in_order(self) -> bool:
        """Whether nothing asks for a person; of a range that was asked for, whether it is in."""
        if self.asked is not None:
            return all(each.state in IN | _ACCEPTED for each in self.intervals)
        return not any(each.state in _FAULTS for each in self.intervals)

    def to_json(self) -> dict[str, Any]:
        """Return the status as commands print it."""
        times = {name: as_text(getattr(self, name)) for name in ("complete_up_to", "decided_up_to")}
        found = {**super().to_json(), **times}
        if self.local:
            rows = [
                {**each.to_json(), "local": self.local[each.interval]} for each in self.intervals
            ]
            found["intervals"] = rows
        return found

    def text_of(self, interval: str) -> str:
        """Return an interval in texts: its name, and in a zone what its start is there."""
        local = self.local.get(interval)
        return interval if local is None else f"{interval} ({local})"


def complete_up_to(
    intervals: Sequence[IntervalStatus], first: int | None
) -> tuple[int | None, int | None, IntervalStatus | None]:
    """Return the time up to which all is in; the same with decided holes; and the first hole.

    Args:
        intervals: All intervals, in order of time.
        first: Start of the first expected interval, seconds since 1970; None for that of the list.
    """
    begin = first if first is not None else min((each.start for each in intervals), default=None)
    if begin is None:
        return None, None, None
    strict, held = _reached(intervals, begin, IN)
    decided, _ = _reached(intervals, begin, IN | _DECIDED)
    # An interval that is not over yet, or that settles, is no hole.
    is_hole = held is not None and not (held.state == "waiting" and held.since is None)
    return strict, decided, held if is_hole else None


def _reached(
    intervals: Iterable[IntervalStatus], begin: int, good: frozenset[State]
) -> tuple[int | None, IntervalStatus | None]:
    reached = begin
    for each in intervals:
        if each.end <= begin:
            continue  # before the first interval that is expected today
        if each.state not in good or each.start > reached:
            return _or_none(reached, begin), each
        reached = max(reached, each.end)
    return _or_none(reached, begin), None


def _or_none(reached: int, begin: int) -> int | None:
    return reached if reached > begin else None


def as_text(seconds: int | None) -> str | None:
    """Return a time for people and scripts: ``2013-01-01T00:00:00Z``."""
    return None if seconds is None else format_time(datetime.fromtimestamp(seconds, UTC))


# --- Finds the state of every interval of a data set, from its folder alone


def dataset_status(
    folder: DatasetFolder,
    *,
    datasets: Path | None,
    attempts: Attempts,
    now: datetime,
    span: TimeRange | None = None,
) -> DatasetStatus:
    """Return the status of a data set; nothing but its index is written.

    Args:
        folder: The data set.
        datasets: The folder of specifications; None to use the recorded schedule.
        attempts: The attempts in the work folder.
        now: Aware UTC time.
        span: The range whose intervals are returned, with the holes and decisions that reach into
            it; None for all that are over. The time up to which all is in is always that of the
            whole data set.

    Raises:
        WindowError: No interval starts in ``span``, and no hole or decision reaches into it; or it
            ends more than 100,000 intervals from now.
        ConfigError: There is no valid specification, and the zone database of this process would
            cut published intervals otherwise than the recorded schedule.
        FormatError: There is no specification, and the recorded schedule is damaged; or an accepted
            hole is.
        StorageError: The publication root refused or failed.
    """
    expected = expected_of(folder, datasets)
    if span is not None and expected.schedule is not None:
        _require_near(expected.schedule, span, now)
    found = _Rows(folder, expected, attempts, now)
    intervals = sorted(found.intervals(span), key=lambda each: (each.start, each.end))
    first = None if expected.schedule is None else int(expected.schedule.first.timestamp())
    strict, decided, held = complete_up_to(intervals, first)
    if span is not None:
        intervals = [each for each in intervals if found.is_asked(each, span)]
        if not intervals:
            raise _nothing_in(folder, expected.schedule, span)
    return DatasetStatus(
        dataset=folder.name,
        intervals=tuple(intervals),
        asked=None if span is None else span.text,
        complete_up_to=strict,
        decided_up_to=decided,
        held_back_by=held,
        doubts=tuple(found.doubts()),
        local=_local(expected.schedule, intervals),
    )


def _require_near(schedule: Schedule, span: TimeRange, now: datetime) -> None:
    """Refuse a range up to whose end a list of intervals would take too long to make."""
    following = takewhile(lambda each: each.start < span.end, schedule.intervals(now))
    if next(islice(following, MAX_INTERVALS, None), None) is not None:
        raise WindowError(
            f"expected a range that ends at most {MAX_INTERVALS} intervals from now on, {span.both}"
            " ends later; ask for an earlier one"
        )


def _nothing_in(folder: DatasetFolder, schedule: Schedule | None, span: TimeRange) -> WindowError:
    """Return why a range has no rows: an empty table would be in order."""
    if schedule is not None:
        try:
            intervals_in(schedule, span)
        except WindowError as error:
            return error
    return WindowError(
        f"expected a range in which an interval of data set {folder.name!r} starts, {span.both} has"
        f" none; trainfeed status {folder.name} lists them all"
    )


def _local(schedule: Schedule | None, intervals: Iterable[IntervalStatus]) -> dict[str, str]:
    if schedule is None or schedule.zone is None:
        return {}
    return {each.interval: schedule.local_text(_time(each.start)) or "" for each in intervals}


class _Rows:
    """The rows of a status, judged by the evidence in the folder of a data set.

    Args:
        folder: The data set.
        expected: The rules of the data set.
        attempts: The attempts in the work folder.
        now: Aware UTC time.
    """

    def __init__(
        self, folder: DatasetFolder, expected: Expected, attempts: Attempts, now: datetime
    ) -> None:
        self._folder = folder
        self._expected = expected
        self._attempts = attempts
        self._now = now
        self._ended = set(folder.unpublished_intervals())
        self._planned = set(folder.planned_intervals())
        self._found = found_intervals(folder)
        versions = [(n, each.facts) for n, each in self._found.items() if each.facts is not None]
        self._versions = sorted(versions, key=lambda each: (each[1].start, each[1].end))
        self._late = late_since(
            self._versions, {name: each.published for name, each in self._found.items()}
        )
        self._unread = unread_offsets(self._versions)
        self._spans = list(self._spans_of_versions())
        self._fitting: dict[str, Interval] = {}
        self._damaged_skips: set[str] = set()
        self._closed: set[str] = set()

    def is_asked(self, row: IntervalStatus, span: TimeRange) -> bool:
        """Return whether a row of ``intervals`` belongs to a range.

        An interval does if it starts there, as for readers; a hole or a decision into which no
        interval of the schedule fits does with any part of it.
        """
        start, end = _time(row.start), _time(row.end)
        fits = self._fitting.get(row.interval) == Interval(start, end, row.interval)
        if fits or row.generation is not None:
            return start in span
        return start < span.end and span.start < end

    def doubts(self) -> Iterator[str]:
        """Yield what the answer does not cover; of ``intervals``, once they were yielded."""
        for doubt in (self._expected.doubt, self._attempts.doubt):
            if doubt is not None:
                yield doubt
        if self._closed:
            first, *others = sorted(self._closed)
            more = f" and {len(others)} more" if others else ""
            yield (
                "how the last attempt ended is not known where its record is closed to this"
                f" account: {first}{more}"
            )
        if self._expected.schedule is None:
            yield "no schedule is known, so intervals after the last version are not listed"
        for (name, facts), (other, later) in pairwise(self._versions):
            if later.start < facts.end:
                yield f"{name} and {other} overlap: readers of a range with both are refused"

    def intervals(self, span: TimeRange | None) -> Iterator[IntervalStatus]:
        """Yield all intervals: published and expected ones, and holes that no interval fits."""
        for name, found in self._found.items():
            if found.generation is not None:
                yield self._published(name, found)
        limit = self._now if span is None else max(self._now, span.end)
        published = Times(self._spans)
        left = self._uncovered(published, limit)
        skipped = {each.interval: each for each in left.skipped}
        still_open = {each.name for each in left.open_intervals}
        for each in left.intervals:
            is_due = each.end <= self._now or (span is not None and each.start < span.end)
            skip = skipped.get(each.name)
            is_judged = each.name in still_open or (skip is not None and _is_of(skip, each))
            is_published = (
                each.name in self._found and self._found[each.name].generation is not None
            )
            if is_due and is_judged and not is_published:
                yield self._absent(each, self._gone_of(each.name))
        self._fitting = {each.name: each for each in left.intervals}
        yield from _decided(left, self._fitting)
        # The interval with the other pieces is not over.
        pieces = [piece for piece in left.pieces if piece[1] < limit]
        hidden = list(self._unfit(published, Times(pieces)))
        yield from hidden
        told = Times((_time(each.start), _time(each.end)) for each in hidden)
        for piece in pieces:
            for start, end in told.rest(*piece):
                yield self._hole(start, end)

    def _spans_of_versions(self) -> Iterator[tuple[datetime, datetime]]:
        """Yield the span of every version; of a damaged one that which its name tells."""
        for _, facts in self._versions:
            yield _time(facts.start), _time(facts.end)
        for name, found in self._found.items():
            if found.generation is not None and found.facts is None:
                start, end = self._span_of(name)
                if start < end:
                    yield _time(start), _time(end)

    def _uncovered(self, published: Times, limit: datetime) -> Uncovered:
        schedule = self._expected.schedule
        starts = [start for start, _ in self._spans]
        if schedule is not None:
            begin, end = min([schedule.first, *starts]), limit
        elif starts:
            begin, end = min(starts), max(end for _, end in self._spans)
        else:
            return Uncovered()
        return uncovered(
            self._folder,
            published,
            schedule,
            (begin, end),
            find_skip=self._skip_of,
            most=None,
        )

    def _skip_of(self, name: str) -> Skip | None:
        try:
            return skip_of(self._folder, name)
        except FormatError:
            self._damaged_skips.add(name)
            return None  # its interval is judged as damaged

    def _hole(self, start: datetime, end: datetime) -> IntervalStatus:
        schedule = self._expected.schedule
        name = range_text(start, end, None if schedule is None else schedule.zone)
        reason = (
            "versions end and begin again here; without a schedule it is not known what should be"
            if schedule is None
            else "no version has it, and no interval of the schedule fits; correct the schedule, or"
            f" go without: trainfeed accept-hole {self._folder.name}/{name} --why WHY"
        )
        return _row(name, Judgement("missing", reason, None), _seconds(start), _seconds(end))

    def _unfit(self, published: Times, holes: Times) -> Iterator[IntervalStatus]:
        """Yield what fits no schedule of today, and had versions in holes or beyond all others.

        A damaged marker is told wherever it is: readers of holes are refused because of it.
        """
        for name in sorted(self._damaged_skips.difference(self._fitting)):
            if name not in self._found or self._found[name].generation is None:
                start, end = (_time(each) for each in self._span_of(name))
                yield self._absent(Interval(start, end, name), self._gone_of(name))
        for name, found in self._found.items():
            is_told = name in self._fitting or name in self._damaged_skips
            if found.generation is None and not is_told:
                start, end = (_time(each) for each in self._span_of(name))
                is_beyond = any(None in published.around(*p) for p in published.rest(start, end))
                is_in_hole = holes.rest(start, end) != [(start, end)]
                gone = self._gone_of(name) if is_beyond or is_in_hole else None
                if gone is not None:
                    yield self._absent(Interval(start, end, name), gone)

    def _published(self, name: str, found: FoundInterval) -> IntervalStatus:
        facts = found.facts
        if facts is None:
            start, end = self._span_of(name)
            damaged = judge_published(Published(found.published, damage=found.damage))
            return _row(name, damaged, start, end, found.generation, None)
        evidence = Published(
            found.published,
            unread=self._unread.get(name, ()),
            lost=facts.lost,
            late=self._late.get(name),
            empty=facts.empty,
            ended=self._ended_of(name, found) if name in self._ended else None,
        )
        judged = judge_published(evidence)
        withdrawn = withdrawn_since(self._folder, name, found.names, found.generation or 0)
        passed_over = f"passed over: {facts.passed_over}" if facts.passed_over else ""
        reason = "; ".join(filter(None, [judged.reason, withdrawn, passed_over]))
        judged = judged._replace(reason=reason)
        return _row(name, judged, facts.start, facts.end, found.generation, facts.samples)

    def _gone_of(self, name: str) -> Gone | None:
        found = self._found.get(name)
        return None if found is None else gone_of(self._folder, name, found.names)

    def _absent(self, interval: Interval, gone: Gone | None) -> IntervalStatus:
        absent = self._evidence_of(interval, gone)
        judged = judge_absent(absent, self._expected.at(absent.end), self._now)
        return _row(interval.name, judged, _seconds(interval.start), _seconds(interval.end))

    def _evidence_of(self, interval: Interval, gone: Gone | None) -> Absent:
        name = interval.name
        plans: tuple[str, ...] = ()
        skip: Skip | None = None
        damage: str | None = None
        if name in self._planned:
            plans = tuple(self._folder.plan_ids(name))
            try:
                skip = read_skip(self._folder, name)
                skip = skip if skip is None or _is_of(skip, interval) else None
            except FormatError as error:
                damage = str(error)
        return Absent(
            end=interval.end,
            damage=damage,
            gone=gone,
            skip=skip,
            attempt=self._attempts.of(self._folder, plans) if plans else None,
            ended=self._ended_since(name, 0) if name in self._ended else None,
            plans=plans,
        )

    def _ended_of(self, name: str, found: FoundInterval) -> Unpublished | None:
        """Return the attempt that failed since; not if a withdrawal refused it that is lifted."""
        ended = self._ended_since(name, found.published)
        if ended is None or ended.error != WithdrawnError.__name__:
            return ended
        return ended if any(each.endswith(".withdrawn") for each in found.names) else None

    def _ended_since(self, name: str, published: int) -> Unpublished | None:
        """Return the record of an attempt that ended after a version was published."""
        try:
            ended = read_unpublished(self._folder, name)
        except AccessDeniedError:
            self._closed.add(name)
            return None
        except FormatError as error:
            return _unknown_end(name, f"its record is damaged: {error}", self._now)
        if ended is None or parse_time(ended.since).timestamp() < published:
            return None
        return ended

    def _span_of(self, name: str) -> tuple[int, int]:
        """Return the span of an interval whose manifest does not tell it."""
        schedule = self._expected.schedule
        try:
            interval = parse_range(name) if schedule is None else schedule.interval_named(name)
        except WindowError:
            try:
                interval = parse_range(name)
            except WindowError:
                return 0, 0
        return _seconds(interval.start), _seconds(interval.end)


def _row(
    name: str,
    judged: Judgement,
    start: int,
    end: int,
    generation: int | None = None,
    samples: int | None = None,
) -> IntervalStatus:
    return IntervalStatus(
        name, judged.state, start, end, judged.since, judged.reason, generation, samples
    )


def _decided(left: Uncovered, fitting: Mapping[str, Interval]) -> Iterator[IntervalStatus]:
    """Yield the decisions that close something else than an interval of the schedule of today."""
    for hole in left.accepted:
        start, end = hole.span
        judged = Judgement("accepted", hole.told, _seconds(parse_time(hole.at)))
        yield _row(hole.range, judged, _seconds(start), _seconds(end))
    for skip, (start, end) in left.skips:
        interval = fitting.get(skip.interval)
        if interval is None or not _is_of(skip, interval):
            judged = Judgement("skipped", skip.why, _seconds(parse_time(skip.at)))
            yield _row(skip.interval, judged, _seconds(start), _seconds(end))


def _is_of(skip: Skip, interval: Interval) -> bool:
    """Return whether a decision is about an interval, and not about an earlier one of its name."""
    return skip.span in {None, (interval.start, interval.end)}


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _unknown_end(name: str, why: str, now: datetime) -> Unpublished:
    since = format_time(now.replace(microsecond=0))
    return Unpublished(name, since, "an attempt", None, "failed", "unknown", why)


def _seconds(time: datetime) -> int:
    return int(time.timestamp())
