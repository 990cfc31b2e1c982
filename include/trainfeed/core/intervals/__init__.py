"""Intervals: the half-open UTC spans of a schedule, their names, and requests for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.core.intervals.schedule import (
        MAX_INTERVALS,
        Interval,
        Schedule,
        TimeRange,
        WindowRequest,
        has_offset,
        intervals_in,
        name_runs,
        parse_range,
        range_needs_zone,
        range_text,
        ready_at,
        resolve_interval,
    )
    from trainfeed.core.intervals.ticks import PRESETS
    from trainfeed.core.intervals.times import format_time, parse_time
    from trainfeed.core.intervals.zones import ZoneRules, zone_release, zone_rules

__all__ = [
    "MAX_INTERVALS",
    "PRESETS",
    "Interval",
    "Schedule",
    "TimeRange",
    "WindowRequest",
    "ZoneRules",
    "format_time",
    "has_offset",
    "intervals_in",
    "name_runs",
    "parse_range",
    "parse_time",
    "range_needs_zone",
    "range_text",
    "ready_at",
    "resolve_interval",
    "zone_release",
    "zone_rules",
]

__getattr__ = on_demand(__name__)
