"""Schedules cut the time line into intervals; ranges of them, and requests for one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Final

from trainfeed.core.intervals.ticks import Ticks, ticks_of
from trainfeed.core.intervals.times import format_time, parse_time, to_utc
from trainfeed.core.intervals.zones import local_day, zone_rules
from trainfeed.errors import WindowError

# --- Schedules: a cron expression cuts the time line into intervals; no function here reads a clock


@dataclass(frozen=True)
class Interval:
    """One interval ``[start, end)`` of a schedule, aware UTC, and the name of its folder."""

    start: datetime
    end: datetime
    name: str


@dataclass(frozen=True)
class Schedule:
    """The ticks of ``cron`` from ``first`` to ``last``, both inclusive.

    Args:
        cron: Five cron fields or a preset; kept as five fields.
        first: Start of the first interval; a tick.
        last: Start of the last interval; a tick, or None for a schedule that goes on.
        zone: Name of the time zone whose clocks the fields are about; None for UTC.

    Raises:
        ConfigError: ``cron`` is no cron expression, or ``zone`` is no zone.
        WindowError: ``first`` or ``last`` is no tick, or they are in the wrong order.
    """

    cron: str
    first: datetime
    last: datetime | None = None
    zone: str | None = None
    _ticks: Ticks = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Fields of a frozen dataclass can only be set through ``object``.
        ticks = ticks_of(self.cron, self.zone)
        object.__setattr__(self, "_ticks", ticks)
        object.__setattr__(self, "cron", ticks.cron)
        object.__setattr__(self, "first", to_utc(self.first))
        self._require_tick(self.first)
        if self.last is None:
            return
        object.__setattr__(self, "last", last := to_utc(self.last))
        self._require_tick(last)
        if last < self.first:
            raise WindowError(
                f"the last interval {self._name(last)} lies before the first,"
                f" {self._name(self.first)}; swap them or leave the last one out"
            )

    @property
    def text(self) -> str:
        """The schedule in messages: its cron expression, and its zone if it has one."""
        return repr(self.cron) if self.zone is None else f"{self.cron!r} in {self.zone}"

    @property
    def first_name(self) -> str:
        """Name of the first interval, the example in messages and forms of a data set."""
        return self._name(self.first)

    def interval_starting(self, start: datetime) -> Interval:
        """Return the interval that starts at ``start``.

        Raises:
            WindowError: ``start`` is naive, no tick, or outside the schedule.
        """
        tick = to_utc(start)
        self._require_inside(tick)
        self._require_tick(tick)
        return self._interval(tick)

    def interval_named(self, name: str) -> Interval:
        """Return the interval with the folder name ``name``.

        Raises:
            WindowError: No interval of the schedule has that name.
        """
        time = parse_time(name)
        if not self._ticks.may_be_name(name, time):
            raise self._other_name(name)
        # The name is cut, so the tick need not be on the hour or at midnight. The tick of a name is
        # the first one at or after the time that the name gives.
        tick = self.tick_after(time - timedelta(seconds=1))
        if self._name(tick) != name:
            self._require_inside(time)
            self._require_tick(time)
            raise self._other_name(name)
        return self.interval_starting(tick)

    def interval_at(self, text: str) -> Interval:
        """Return the interval with the name ``text``, or that starts at the ISO 8601 time ``text``.

        In a zone a date is a day there, and means the interval that starts in it, or at its
        beginning if several do.

        Raises:
            WindowError: The schedule has no such interval, or ``text`` is a range.
        """
        if "/" in text:
            raise WindowError(
                f"expected one interval, got the range {text[:80]!r}; a backfill is for a range,"
                " and so is trainfeed build"
            )
        time = parse_time(text)
        if self._ticks.may_be_name(text, time):
            return self.interval_named(text)
        if self.zone is None or has_offset(text):
            return self.interval_starting(time)
        if not _DATE.fullmatch(text):
            raise WindowError(
                f"expected a time with its distance to UTC, like {format_time(self.first)}, or a"
                f" day of {self.zone}, got {text[:80]!r}, which may be meant in UTC or there"
            )
        day = parse_range(text, self.zone)
        starts = [each.start for each in self.intervals(day.start, day.end - _SMALLEST)]
        return self.interval_starting(starts[0] if len(starts) == 1 else day.start)

    def previous(self, interval: Interval, count: int) -> list[Interval]:
        """Return the last ``count`` intervals, up to and including ``interval``, in order of time.

        The list is shorter at the beginning of the schedule; ``count`` is at least 1.
        """
        ticks = [interval.start]
        while len(ticks) < count and ticks[-1] > self.first:
            ticks.append(self._ticks.before(ticks[-1]))
        return [self._interval(tick) for tick in reversed(ticks)]

    def beside(self, tick: datetime) -> tuple[Interval, Interval]:
        """Return the intervals that end and start at a tick, also beyond the schedule's ends."""
        return self._interval(self._ticks.before(tick)), self._interval(tick)

    def tick_after(self, time: datetime) -> datetime:
        """Return the first tick after an aware time, also beyond the schedule's ends."""
        return self._ticks.after(to_utc(time))

    def tick_before(self, time: datetime) -> datetime:
        """Return the last tick before an aware time, also beyond the schedule's ends."""
        return self._ticks.before(to_utc(time))

    def text_of(self, interval: Interval) -> str:
        """Return an interval in texts: its name, and in a zone what its start is there."""
        local = self.local_text(interval.start)
        return interval.name if local is None else f"{interval.name} ({local})"

    def local_text(self, time: datetime) -> str | None:
        """Return what an aware time is in the zone, ``2026-03-29 Europe/Berlin``; None without one.

        A time of day other than midnight has its distance to UTC, since clocks show some twice.
        """
        if self.zone is None:
            return None
        local = zone_rules(self.zone).local(time)
        if local.time() == _MIDNIGHT.time():
            return f"{local:%Y-%m-%d} {self.zone}"
        minutes = (local - time) // timedelta(minutes=1)
        sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
        return f"{local:%Y-%m-%d %H:%M}{sign}{hours:02d}:{rest:02d} {self.zone}"

    def intervals(
        self, first: datetime | None = None, last: datetime | None = None
    ) -> Iterator[Interval]:
        """Yield the intervals that start in ``[first, last]``, in order of time.

        Args:
            first: Earliest start; the schedule's first if None or earlier.
            last: Latest start; the schedule's last if None or later. Endless if both are None.
        """
        begin = self.first if first is None else max(self.first, to_utc(first))
        bounds = [to_utc(bound) for bound in (self.last, last) if bound is not None]
        return takewhile(
            lambda interval: all(interval.start <= bound for bound in bounds),
            self._intervals_from(begin),
        )

    def overlapping(
        self, begin: datetime, end: datetime | None = None, *, is_bounded: bool = True
    ) -> Iterator[Interval]:
        """Yield the intervals that ``[begin, end)`` has a part of, in order of time.

        Args:
            begin: Aware UTC time.
            end: Aware UTC time; None for a time that never comes.
            is_bounded: Whether the schedule begins with its first and ends with its last interval;
                otherwise its cron expression goes on in both directions.
        """
        start = max(begin, self.first) if is_bounded else begin
        if not self._ticks.is_tick(start):
            start = self._ticks.before(start)
        for each in self._intervals_from(start):
            is_over = is_bounded and self.last is not None and each.start > self.last
            if is_over or (end is not None and each.start >= end):
                return
            yield each

    def _intervals_from(self, begin: datetime) -> Iterator[Interval]:
        start = begin if self._ticks.is_tick(begin) else self._ticks.after(begin)
        for end in self._ticks.following(start):
            yield Interval(start, end, self._name(start))
            start = end

    def _interval(self, tick: datetime) -> Interval:
        return Interval(tick, self._ticks.after(tick), self._name(tick))

    def _name(self, tick: datetime) -> str:
        return self._ticks.name(tick)

    def _other_name(self, name: str) -> WindowError:
        return WindowError(
            f"expected an interval name like {self._name(self.first)} for the schedule"
            f" {self.text}, got {name!r}"
        )

    def _require_inside(self, time: datetime) -> None:
        if time < self.first:
            raise WindowError(
                f"{format_time(time)} lies before the first interval, {self._name(self.first)};"
                " ask for a later one or move the schedule's start"
            )
        if self.last is not None and time >= self.tick_after(self.last):
            raise WindowError(
                f"{format_time(time)} lies after the last interval, {self._name(self.last)};"
                " ask for an earlier one or move the schedule's end"
            )

    def _require_tick(self, time: datetime) -> None:
        if not self._ticks.is_tick(time):
            near = format_time(self._ticks.before(time)), format_time(self.tick_after(time))
            raise WindowError(
                f"{format_time(time)} is not a tick of the schedule {self.text}; the nearest are"
                f" {' and '.join(near)}"
            )


# --- Ranges of intervals: one grammar for Python and the command line

_MONTH: Final = re.compile(r"[0-9]{4}-[0-9]{2}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_HAS_OFFSET: Final = re.compile(r"[T ].*(Z|[+-][0-9:]+)$")
# More than ten years of hours; a longer list would take too long to make.
MAX_INTERVALS: Final = 100_000
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
    """A range: the span ``[start, end)``, aware UTC, in which intervals start, and its text.

    Attributes:
        text: The range, which means the same with a zone and without one.
        start: Its start.
        end: Its end.
        local: What was written instead, in days or months of a zone, with that zone.
    """

    text: str
    start: datetime
    end: datetime
    local: str | None = None

    @property
    def both(self) -> str:
        """The range in messages: its text, and what was written if that is something else."""
        return self.text if self.local is None else f"{self.text} ({self.local})"

    def __contains__(self, time: datetime) -> bool:
        return self.start <= time < self.end


def parse_range(text: str, zone: str | None = None) -> TimeRange:
    """Return the range of ``text``: one end, or two with ``/`` between them.

    Args:
        text: The range.
        zone: Name of the zone of the schedule: days and months are then those of the zone. Hours
            and finer ends are in UTC, as in the names of intervals. None for UTC.

    Raises:
        WindowError: ``text`` is no range, names a time that does not exist, or goes backwards.
    """
    first, slash, last = text.partition("/")
    if slash and (not first or not last or "/" in last):
        raise WindowError(
            f"expected a range FIRST/LAST like 2026-01-01/2026-01-31, got {text[:80]!r}"
        )
    start, end = _span(first, zone)
    if slash:
        _, end = _span(last, zone)
        if end <= start:
            raise WindowError(
                f"expected a range from earlier to later, got {text!r}; write {last}/{first}"
            )
    if zone is None or not range_needs_zone(text):
        return TimeRange(text, start, end)
    return TimeRange(range_text(start, end, zone), start, end, f"{text} {zone}")


def intervals_in(schedule: Schedule, span: TimeRange) -> list[Interval]:
    """Return the intervals of ``schedule`` that start in ``span``, in order of time.

    Raises:
        WindowError: No interval starts there, or more than 100,000 do.
    """
    found: list[Interval] = []
    for interval in schedule.intervals(span.start, span.end - _SMALLEST):
        if len(found) == MAX_INTERVALS:
            raise WindowError(
                f"expected at most {MAX_INTERVALS} intervals, {span.both} has more; ask for a"
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


def range_text(start: datetime, end: datetime, zone: str | None = None) -> str:
    """Return the text of exactly ``[start, end)``, in days, hours, minutes or seconds.

    With a zone it has no days, since those would be days of the zone.
    """
    for unit, form in _UNITS if zone is None else _UNITS[1:]:
        last = end - unit
        if start <= last and not any((time - _MIDNIGHT) % unit for time in (start, end)):
            first = start.strftime(form)
            return first if start == last else f"{first}/{last.strftime(form)}"
    return f"{format_time(start)}/{format_time(end - _SMALLEST)}"


def has_offset(text: str) -> bool:
    """Return whether a time as text says its distance to UTC."""
    return _HAS_OFFSET.search(text) is not None


def range_needs_zone(text: str) -> bool:
    """Return whether a zone decides what a range means: whether an end of it is a day or month."""
    return any(_MONTH.fullmatch(end) or _DATE.fullmatch(end) for end in text.split("/"))


def _span(text: str, zone: str | None) -> tuple[datetime, datetime]:
    if _MONTH.fullmatch(text):
        start = parse_time(f"{text}-01")
        # 31 days after the first day of a month is always a day of the next month.
        end = (start + timedelta(days=31)).replace(day=1)
    else:
        start = parse_time(text)
        end = start + _length(text)
    if zone is None or not range_needs_zone(text):
        return start, end
    return local_day(zone, text, start, end)


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
        f"no interval of the schedule {schedule.text}{_bounds(schedule)} starts in {span.both},"
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


# --- The one resolver from a request to an interval: of schedule, trigger, REST, backfill, shell


@dataclass(frozen=True, kw_only=True)
class WindowRequest:
    """The facts from which the interval of a run follows; empty texts count as None.

    Attributes:
        window_start: Parameter of the run: an interval name or an ISO 8601 time, UTC.
        partition_key: Name of an interval, from an asset event.
        data_interval_start: Aware start of the run's data interval.
        data_interval_end: Aware end of the run's data interval.
        is_backfill: Whether the run belongs to a backfill.
        is_scheduled: Whether the schedule made the run, which may then wait for the end of its
            interval.
    """

    window_start: str | None = None
    partition_key: str | None = None
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None
    is_backfill: bool = False
    is_scheduled: bool = False

    @property
    def origin(self) -> str:
        """The fact that decides, as text for logs and messages."""
        if self.window_start:
            return f"window_start={self.window_start!r}"
        if self.partition_key:
            return f"the partition key {self.partition_key!r} of the run"
        if self.data_interval_start is None:
            return "nothing"
        start, end = self.data_interval_start, self.data_interval_end
        text = f"[{format_time(start)}, {'…' if end is None else format_time(end)})"
        if self.is_scheduled or self.is_backfill:
            return f"the data interval of the run, {text}"
        return (
            f"the data interval of the run, {text}: window_start is empty, so the run is for the"
            " last interval that had ended at its logical date"
        )


def resolve_interval(schedule: Schedule, request: WindowRequest) -> Interval:
    """Return the interval of a request.

    The first given fact decides: parameter, then partition key, then data interval.

    Raises:
        WindowError: The interval is no tick or outside the schedule, nothing was given, or a
            backfill has the parameter.
    """
    if request.window_start:
        if request.is_backfill:
            raise WindowError(
                f"window_start={request.window_start!r} is refused in a backfill, where it would"
                " send every run to one interval; leave it out, the backfill's dates decide"
            )
        return schedule.interval_at(request.window_start)
    if request.partition_key:
        return schedule.interval_named(request.partition_key)
    if request.data_interval_start is not None:
        return _of_data_interval(schedule, request.data_interval_start, request)
    raise WindowError(
        "expected an interval to build, got none: the run has no window_start, no partition key"
        f" and no data interval; set window_start to {_ticks(schedule)}"
    )


def _of_data_interval(schedule: Schedule, start: datetime, request: WindowRequest) -> Interval:
    try:
        interval = schedule.interval_starting(start)
    except WindowError as error:
        if request.is_scheduled or request.is_backfill:
            raise
        raise WindowError(
            f"expected an interval of the schedule, got {request.origin}: {error}; trigger again"
            f" with window_start set to {_ticks(schedule)}"
        ) from error
    end = request.data_interval_end
    if end is not None and to_utc(end) != interval.end:
        raise WindowError(
            f"expected the data interval of one tick, [{format_time(interval.start)},"
            f" {format_time(interval.end)}), got an end of {format_time(end)}; use a backfill for"
            " more than one interval"
        )
    return interval


def _ticks(schedule: Schedule) -> str:
    """Return the possible choices as text: schedule, first and last interval."""
    first = schedule.first_name
    last = "on"
    if schedule.last is not None:
        last = f"to {schedule.interval_starting(schedule.last).name}"
    return f"a tick of the schedule {schedule.text}, from {first} {last}"


def ready_at(interval: Interval, settle: timedelta) -> datetime:
    """Return when ``interval`` can be planned: ``settle`` after its end, aware UTC."""
    return interval.end + settle
