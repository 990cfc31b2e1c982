"""Intervals: the half-open UTC spans of a schedule, their names, and requests for them."""

from __future__ import annotations

from trainfeed.intervals._range import TimeRange, intervals_in, name_runs, parse_range, range_text
from trainfeed.intervals._request import WindowRequest, ready_at, resolve_interval
from trainfeed.intervals._schedule import PRESETS, Interval, Schedule
from trainfeed.intervals._time import format_time, parse_time

__all__ = [
    "PRESETS",
    "Interval",
    "Schedule",
    "TimeRange",
    "WindowRequest",
    "format_time",
    "intervals_in",
    "name_runs",
    "parse_range",
    "parse_time",
    "range_text",
    "ready_at",
    "resolve_interval",
]
