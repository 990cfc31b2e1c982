"""The recorded schedule of a data set, from which readers know the intervals that should exist.

The record of a schedule in a zone has format 2, which a trainfeed that knows no zones refuses. It
also has what the clocks of the zone did, so that another release of the zone database is noticed
when it would cut published intervals otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any, Final

from trainfeed.core import canonical_json
from trainfeed.core.intervals import (
    Schedule,
    TimeRange,
    format_time,
    parse_range,
    parse_time,
    range_needs_zone,
    zone_release,
    zone_rules,
)
from trainfeed.errors import ConfigError, FormatError
from trainfeed.files.records import ONCE_UNSEALED, RecordFile, Time, record_of
from trainfeed.versions.layout import DatasetFolder, is_name

# The format of the record of a schedule in UTC, and of one in a zone.
_PLAIN, _ZONED = 1, 2


@dataclass(frozen=True)
class _Zone:
    """What the clocks of a zone did in the time of a schedule.

    Attributes:
        name: The zone.
        release: Release of the zone database that says so.
        until: The end of the time.
        offsets: The first tick and every change after it, each with the seconds that clocks are
            ahead of UTC from then on.
    """

    name: str
    release: str
    until: Time
    offsets: tuple[tuple[Time, int], ...]


@dataclass(frozen=True)
class _Recorded:
    """The content of the file; ``dataset`` is None in a file that is not sealed."""

    cron: str
    first: Time
    last: Time | None
    dataset: str | None = None
    zone: _Zone | None = None

    @property
    def schedule(self) -> Schedule:
        last = None if self.last is None else parse_time(self.last)
        zone = None if self.zone is None else self.zone.name
        return Schedule(self.cron, parse_time(self.first), last, zone)


def _to_json(recorded: _Recorded) -> dict[str, Any]:
    value: dict[str, Any] = canonical_json.json_value(recorded)
    if recorded.zone is None:
        del value["zone"]
    return {**value, "format": _PLAIN if recorded.zone is None else _ZONED}


def _from_json(value: dict[str, Any]) -> _Recorded:
    found, wanted = value.pop("format"), _ZONED if value.get("zone") is not None else _PLAIN
    if found != wanted:
        raise ValueError(f"expected format {wanted}, got {found!r} of another trainfeed")
    return record_of(_Recorded, value)


def _check(recorded: _Recorded) -> None:
    schedule, zone = recorded.schedule, recorded.zone
    if zone is not None:
        times = [parse_time(time) for time, _ in zone.offsets]
        if times[:1] != [schedule.first] or times != sorted(set(times)):
            raise ValueError("zone.offsets: expected times in order, from the first tick on")
        if parse_time(zone.until) < times[-1]:
            raise ValueError("zone.until: expected a time after all offsets")


_FILE: Final = RecordFile(
    _Recorded,
    "the schedule of a data set",
    "nothing was changed; the next build of the data set writes the file again",
    place=ONCE_UNSEALED["schedule"],
    to_json=_to_json,
    from_json=_from_json,
    check=_check,
)


def record_schedule(folder: DatasetFolder, schedule: Schedule, end: datetime | None = None) -> None:
    """Write the present schedule of a data set, unless the file already has it.

    Args:
        folder: The data set.
        schedule: Its schedule.
        end: End of the interval that is built, aware UTC, or None for the first one; the clocks of
            a zone are recorded for some time after it.

    Raises:
        ConfigError: The zone database of this process would cut published intervals otherwise.
        StorageError: The publication root refused or failed. The file is the old one, or absent.
    """
    first, last = format_time(schedule.first), schedule.last
    text = None if last is None else format_time(last)
    zone = None
    if schedule.zone is not None:
        until = datetime((end or schedule.first).year + 2, 1, 1, tzinfo=UTC)
        before = _zone_before(folder, schedule)
        if before is not None:
            _require_same_cuts(folder, before)
            until = max(until, parse_time(before.until))
        zone = _zone_of(schedule.zone, schedule.first, until)
    recorded = _Recorded(schedule.cron, first, text, folder.name, zone)
    _FILE.replace(folder.schedule, recorded)


def read_schedule(folder: DatasetFolder) -> Schedule | None:
    """Return the schedule that the last build of a data set recorded, or None.

    Raises:
        ConfigError: The zone database of this process would cut published intervals otherwise.
        FormatError: The file is damaged, or a newer version wrote it.
        StorageError: The publication root refused or failed.
    """
    found = _FILE.read(folder.schedule, dataset=folder.name)
    if found is None:
        return None
    if found.zone is not None:
        _require_same_cuts(folder, found.zone)
    return found.schedule


def range_of(folder: DatasetFolder, asked: str) -> TimeRange:
    """Return a range of a data set: its days and months are those of the zone of the schedule.

    The name of a published interval is that interval, also if it is of an earlier schedule in UTC.

    Args:
        folder: The data set.
        asked: A range, in the forms of ``trainfeed.core.intervals.parse_range``.

    Raises:
        WindowError: ``asked`` is no range.
        ConfigError: The zone database of this process would cut published intervals otherwise.
        FormatError: The recorded schedule is damaged, and versions are such as a zone has.
        StorageError: The publication root refused or failed.
    """
    span = parse_range(asked)
    if not range_needs_zone(asked):
        return span
    try:
        schedule = read_schedule(folder)
    except FormatError:
        # Names of a set in a zone have an hour.
        if any("T" in name for name in folder.intervals()):
            raise
        return span
    if schedule is None or schedule.zone is None:
        return span
    if is_name(asked) and folder.readable_generation(asked) is not None:
        return span
    return parse_range(asked, schedule.zone)


def _zone_before(folder: DatasetFolder, schedule: Schedule) -> _Zone | None:
    """Return the clocks of the last build, if its schedule had the same ticks by them."""
    try:
        found = _FILE.read(folder.schedule, dataset=folder.name)
    except FormatError:
        return None  # the file is written again
    if found is None or found.zone is None or found.cron != schedule.cron:
        return None
    return found.zone if found.zone.name == schedule.zone else None


def _zone_of(name: str, first: datetime, until: datetime) -> _Zone:
    rules = zone_rules(name)
    offsets = [(first, rules.offset(first)), *rules.changes(first, until)]
    seconds = tuple((format_time(at), offset // timedelta(seconds=1)) for at, offset in offsets)
    return _Zone(name, zone_release(), format_time(until), seconds)


def _require_same_cuts(folder: DatasetFolder, recorded: _Zone) -> None:
    """Refuse other clocks than those that were recorded, for the time of published intervals."""
    first = parse_time(recorded.offsets[0][0])
    own = _zone_of(recorded.name, first, parse_time(recorded.until))
    other = next((p for p in zip_longest(recorded.offsets, own.offsets) if p[0] != p[1]), None)
    if other is None:
        return
    at = min(each[0] for each in other if each is not None)
    if (name := _last_published(folder, parse_time(at))) is not None:
        raise ConfigError(
            f"expected clocks of {recorded.name} as in release {recorded.release} of the zone"
            f" database, with which intervals of {folder.name!r} up to {name} were cut; release"
            f" {own.release} here has others from {at} on; nothing was changed; install the"
            f" package tzdata that has release {recorded.release}, or build the time from then on"
            " as another data set"
        )


def _last_published(folder: DatasetFolder, moment: datetime) -> str | None:
    """Return the last published interval, if it ends after a moment."""
    # On demand: the clocks are almost always the same.
    from trainfeed.versions.version import Version

    for name in reversed(folder.intervals()):
        if (number := folder.readable_generation(name)) is not None:
            interval = Version.resolve(folder, name, number).manifest.interval
            return name if parse_time(interval.end) > moment else None
    return None
