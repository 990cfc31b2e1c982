"""The one resolver from a request to an interval: of schedule, trigger, REST, backfill, shell."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from trainfeed.errors import WindowError
from trainfeed.intervals._schedule import Interval, Schedule
from trainfeed.intervals._time import format_time, to_utc

__all__ = ["WindowRequest", "ready_at", "resolve_interval"]


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
    return f"a tick of the schedule {schedule.cron!r}, from {first} {last}"


def ready_at(interval: Interval, settle: timedelta) -> datetime:
    """Return when ``interval`` can be planned: ``settle`` after its end, aware UTC."""
    return interval.end + settle
