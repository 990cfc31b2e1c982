"""Ranges of intervals: one grammar for Python and the command line.

An end of a range is a month (``2026-01``), a day (``2026-01-01``), an hour (``2026-01-01T05``), a
minute (``2026-01-01T0510``) or an ISO 8601 time, in UTC. Each stands for the whole month, day, hour
or minute: ``a/b`` goes from the start of ``a`` to the end of ``b``. A range selects the intervals
that start in it, so
``2026-01-01/2026-01-02`` of an hourly schedule has 48 of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from trainfeed.errors import WindowError
from trainfeed.intervals._schedule import Interval, Schedule
from trainfeed.intervals._time import format_time, parse_time

__all__ = ["TimeRange", "intervals_in", "name_runs", "parse_range", "range_text"]

_MONTH: Final = re.compile(r"[0-9]{4}-[0-9]{2}")
# More than ten years of hours; a longer list would take too long to make.
_MAX_INTERVALS: Final = 100_000
_SMALLEST: Final = timedelta(microseconds=1)
_MIDNIGHT: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Lengths of the smallest parts of an end, and how the ends are written.
_UNITS: Final = (
    (timedelta(days=1), "%Y-%m-%d"),
    (timedelta(hours=1), "%Y-%m-%dT%H"),
    (timedelta(minutes=1), "%Y-%m-%dT%H%M"),
    (timedelta(seconds=1), "%Y-%m-%dT%H:%M:%SZ"),
)


@dataclass(frozen=True)
class TimeRange:
    """A range: the span ``[start, end)``, aware UTC, in which intervals start, and its text."""

    text: str
    start: datetime
    end: datetime

    def __contains__(self, time: datetime) -> bool:
        return self.start <= time < self.end


def parse_range(text: str) -> TimeRange:
    """Return the range of ``text``: one end, or two with ``/`` between them.

    Raises:
        WindowError: ``text`` is no range, names a time that does not exist, or goes backwards.
    """
    first, slash, last = text.partition("/")
    if slash and (not first or not last or "/" in last):
        raise WindowError(
            f"expected a range FIRST/LAST like 2026-01-01/2026-01-31, got {text[:80]!r}"
        )
    start, end = _span(first)
    if slash:
        _, end = _span(last)
        if end <= start:
            raise WindowError(
                f"expected a range from earlier to later, got {text!r}; write {last}/{first}"
            )
    return TimeRange(text, start, end)


def intervals_in(schedule: Schedule, span: TimeRange) -> list[Interval]:
    """Return the intervals of ``schedule`` that start in ``span``, in order of time.

    Raises:
        WindowError: No interval starts there, or more than 100,000 do.
    """
    found: list[Interval] = []
    for interval in schedule.intervals(span.start, span.end - _SMALLEST):
        if len(found) == _MAX_INTERVALS:
            raise WindowError(
                f"expected at most {_MAX_INTERVALS} intervals, {span.text} has more; ask for a"
                " shorter range"
            )
        found.append(interval)
    if not found:
        raise _none_in(schedule, span)
    return found


def name_runs(intervals: Sequence[Interval]) -> list[str]:
    """Return the names of sorted ``intervals``, with neighbours joined to ``first/last``."""
    runs: list[list[Interval]] = []
    for interval in intervals:
        if runs and runs[-1][-1].end == interval.start:
            runs[-1].append(interval)
        else:
            runs.append([interval])
    return [run[0].name if len(run) == 1 else f"{run[0].name}/{run[-1].name}" for run in runs]


def range_text(start: datetime, end: datetime) -> str:
    """Return the text of exactly ``[start, end)``, in days, hours, minutes or seconds."""
    for unit, form in _UNITS:
        last = end - unit
        if start <= last and not any((time - _MIDNIGHT) % unit for time in (start, end)):
            first = start.strftime(form)
            return first if start == last else f"{first}/{last.strftime(form)}"
    return f"{format_time(start)}/{format_time(end - _SMALLEST)}"


def _span(text: str) -> tuple[datetime, datetime]:
    if _MONTH.fullmatch(text):
        start = parse_time(f"{text}-01")
        # 31 days after the first day of a month is always a day of the next month.
        return start, (start + timedelta(days=31)).replace(day=1)
    start = parse_time(text)
    return start, start + _length(text)


def _length(text: str) -> timedelta:
    """Return the length of the smallest part in ``text``: a day, an hour, a minute, …."""
    clock = re.sub(r"(Z|[+-][0-9:]+)$", "", text[len("2026-01-01T") :]).replace(":", "")
    if "." in clock:
        return _SMALLEST
    units = {0: timedelta(days=1), 2: timedelta(hours=1), 4: timedelta(minutes=1)}
    return units.get(len(clock), timedelta(seconds=1))


def _none_in(schedule: Schedule, span: TimeRange) -> WindowError:
    after = next(schedule.intervals(span.end), None)
    near = [each.name for each in (_before(schedule, after), after) if each is not None]
    return WindowError(
        f"no interval of the schedule {schedule.cron!r}{_bounds(schedule)} starts in {span.text},"
        f" [{format_time(span.start)}, {format_time(span.end)}); the nearest:"
        f" {' and '.join(near)}"
    )


def _before(schedule: Schedule, after: Interval | None) -> Interval | None:
    """Return the interval before ``after``; the last one for None; None at the beginning."""
    if after is not None:
        return None if after.start == schedule.first else schedule.previous(after, 2)[0]
    return None if schedule.last is None else schedule.interval_starting(schedule.last)


def _bounds(schedule: Schedule) -> str:
    first = schedule.first_name
    if schedule.last is None:
        return f" from {first} on"
    return f" from {first} to {schedule.interval_starting(schedule.last).name}"
