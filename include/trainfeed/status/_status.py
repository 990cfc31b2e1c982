"""Finds the state of every interval of a data set, from its folder alone.

Neither a scheduler nor the source is asked. Published intervals, which are nearly all, are judged
from the index; the others from the files beside their plans.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from trainfeed.dataset import DatasetFolder, Skip, Unpublished, read_skip, read_unpublished
from trainfeed.errors import AccessDeniedError, FormatError, WindowError, WithdrawnError
from trainfeed.intervals import Interval, TimeRange, format_time, parse_range, parse_time
from trainfeed.paths import listed
from trainfeed.status._attempts import Attempts
from trainfeed.status._dataset_status import DatasetStatus, IntervalStatus, as_text, complete_up_to
from trainfeed.status._expected import Expected, expected_of
from trainfeed.status._facts import VersionFacts
from trainfeed.status._gone import Gone, gone_of, withdrawn_since
from trainfeed.status._spans import Spans, holes, late_since
from trainfeed.status._states import Absent, Judgement, Published, judge_absent, judge_published
from trainfeed.status._unread import unread_offsets
from trainfeed.status._versions import FoundInterval, found_intervals

__all__ = ["dataset_status"]


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
        span: The intervals to return; None for all that are over. The time up to which all is in
            is always that of the whole data set.

    Raises:
        FormatError: There is no specification, and the recorded schedule is damaged.
        StorageError: The publication root refused or failed.
    """
    expected = expected_of(folder, datasets)
    found = _Evidence(folder, expected, attempts, now)
    intervals = sorted(found.intervals(span), key=lambda each: (each.start, each.end))
    first = None if expected.schedule is None else int(expected.schedule.first.timestamp())
    strict, decided, held = complete_up_to(intervals, first)
    if span is not None:
        begin, end = int(span.start.timestamp()), span.end.timestamp()
        intervals = [each for each in intervals if begin <= each.start < end]
    return DatasetStatus(
        dataset=folder.name,
        intervals=tuple(intervals),
        asked=None if span is None else span.text,
        complete_up_to=strict,
        decided_up_to=decided,
        held_back_by=held,
        doubts=tuple(found.doubts()),
    )


class _Evidence:
    """The evidence in the folder of a data set.

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
        self._planned = {path.name for path in listed(folder.path / "plans")}
        self._found = found_intervals(folder)
        versions = [(n, each.facts) for n, each in self._found.items() if each.facts is not None]
        self._versions = sorted(versions, key=lambda each: (each[1].start, each[1].end))
        self._late = late_since(
            self._versions, {name: each.published for name, each in self._found.items()}
        )
        self._unread = unread_offsets(self._versions)

    def doubts(self) -> Iterator[str]:
        """Yield what the answer does not cover."""
        for doubt in (self._expected.doubt, self._attempts.doubt):
            if doubt is not None:
                yield doubt
        if self._expected.schedule is None:
            yield "no schedule is known, so intervals after the last version are not listed"
        for (name, facts), (other, later) in pairwise(self._versions):
            if later.start < facts.end:
                yield f"{name} and {other} overlap: readers of a range with both are refused"

    def intervals(self, span: TimeRange | None) -> Iterator[IntervalStatus]:
        """Yield all intervals: published ones, expected ones, and holes without a schedule."""
        missed = {each.name: each for each in self._uncovered(span)}
        for name, found in self._found.items():
            if found.generation is not None:
                yield self._published(name, found, missed.pop(name, None))
        for interval in missed.values():
            yield self._absent(interval)
        if self._expected.schedule is None:
            yield from holes(self._versions)

    def _uncovered(self, span: TimeRange | None) -> Iterator[Interval]:
        """Yield the expected intervals that are over, or asked for, and not covered by versions."""
        for begin, end in Spans(self._versions).holes():
            until = None if end is None else datetime.fromtimestamp(end, UTC)
            for each in self._expected.intervals(datetime.fromtimestamp(begin, UTC), until):
                if each.end > self._now and (span is None or each.start >= span.end):
                    break
                yield each

    def _published(
        self, name: str, found: FoundInterval, uncovered: Interval | None
    ) -> IntervalStatus:
        facts = found.facts
        if facts is None:
            start, end = self._span_of(name)
            damaged = judge_published(Published(found.published, damage=found.damage))
            return _row(name, damaged, start, end, found.generation, None)
        evidence = Published(
            found.published,
            lost=(*facts.gaps, *self._unread.get(name, ()), *_beyond(facts, uncovered)),
            late=self._late.get(name),
            empty=facts.empty,
            ended=self._ended_of(name, found) if name in self._ended else None,
        )
        judged = judge_published(evidence)
        withdrawn = withdrawn_since(self._folder, name, found.names, found.generation or 0)
        reason = "; ".join(filter(None, [judged.reason, withdrawn]))
        judged = judged._replace(reason=reason)
        return _row(name, judged, facts.start, facts.end, found.generation, facts.samples)

    def _absent(self, interval: Interval) -> IntervalStatus:
        found = self._found.get(interval.name)
        gone = None if found is None else gone_of(self._folder, interval.name, found.names)
        judged = judge_absent(self._evidence(interval, gone), self._expected, self._now)
        return _row(interval.name, judged, _seconds(interval.start), _seconds(interval.end))

    def _evidence(self, interval: Interval, gone: Gone | None) -> Absent:
        name = interval.name
        plans: tuple[str, ...] = ()
        skip: Skip | None = None
        damage: str | None = None
        if name in self._planned:
            plans = tuple(self._folder.plan_ids(name))
            try:
                skip = read_skip(self._folder, name)
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
            return _unknown_end(name, "its record is closed to this account", self._now)
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


def _beyond(facts: VersionFacts, uncovered: Interval | None) -> tuple[str, ...]:
    """Return what the version lacks of the interval that the schedule has under its name."""
    if uncovered is None:
        return ()
    has = f"[{as_text(facts.start)}, {as_text(facts.end)})"
    should = f"[{format_time(uncovered.start)}, {format_time(uncovered.end)})"
    return (f"it has {has}, and the schedule has {should}: build it again",)


def _unknown_end(name: str, why: str, now: datetime) -> Unpublished:
    since = format_time(now.replace(microsecond=0))
    return Unpublished(name, since, "an attempt", None, "failed", "unknown", why)


def _seconds(time: datetime) -> int:
    return int(time.timestamp())
