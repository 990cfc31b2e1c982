"""The one resolver: schedule, trigger form, REST, backfill and command line meet here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from trainfeed.errors import WindowError
from trainfeed.window._schedule import Interval, Schedule
from trainfeed.window._time import format_time, to_utc

__all__ = ["WindowRequest", "ready_at", "resolve_interval"]


@dataclass(frozen=True, kw_only=True)
class WindowRequest:
    """What a run knows about the interval that it is for; empty texts count as None.

    Attributes:
        window_start: Parameter of the run: an interval name or an ISO 8601 time, UTC.
        partition_key: Name of an interval, as asset events carry it.
        data_interval_start: Aware start of the run's data interval.
        data_interval_end: Aware end of the run's data interval.
        is_backfill: The run belongs to a backfill.
        is_scheduled: The schedule made the run, so it may wait for its window to close.
    """

    window_start: str | None = None
    partition_key: str | None = None
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None
    is_backfill: bool = False
    is_scheduled: bool = False


def resolve_interval(schedule: Schedule, request: WindowRequest) -> Interval:
    """The interval that ``request`` asks for: parameter, partition key, data interval.

    The first of them that is given decides; the others are not looked at.

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
        return _of_data_interval(schedule, request.data_interval_start, request.data_interval_end)
    raise WindowError(
        "expected an interval to build, got none: the run has no window_start, no partition key"
        " and no data interval; set window_start to a tick of the schedule, for instance"
        f" {format_time(schedule.first)}"
    )


def _of_data_interval(schedule: Schedule, start: datetime, end: datetime | None) -> Interval:
    interval = schedule.interval_starting(start)
    if end is not None and to_utc(end) != interval.end:
        raise WindowError(
            f"expected the data interval of one tick, [{format_time(interval.start)},"
            f" {format_time(interval.end)}), got an end of {format_time(end)}; use a backfill for"
            " more than one interval"
        )
    return interval


def ready_at(interval: Interval, settle: timedelta) -> datetime:
    """The aware UTC time from which ``interval`` can be planned: ``settle`` after its end."""
    return interval.end + settle
