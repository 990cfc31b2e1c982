"""Ticks: the moments of a cron expression, in UTC or as the clocks of a zone show them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from croniter import croniter
from croniter.croniter import CroniterBadDateError, CroniterError

from trainfeed.core.intervals.zones import zone_rules
from trainfeed.errors import ConfigError, WindowError

PRESETS: Final = MappingProxyType(
    {
        "@hourly": "0 * * * *",
        "@daily": "0 0 * * *",
        "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *",
        "@quarterly": "0 0 1 */3 *",
        "@yearly": "0 0 1 1 *",
    }
)

# croniter chooses the values of H and R at random or from a hash, differently in each process.
_DRAWN = re.compile(r"(?:^|[\s,])[hr](?=$|[\s,/(])", re.IGNORECASE)
# croniter needs seconds for a long list of ranges; no real schedule is longer.
_MAX_CRON_CHARS = 200
_MAX_CRONS: Final = 256
# Years in the middle of the allowed times, where the arithmetic cannot leave them.
_PLAIN_YEARS: Final = range(1971, 9998)


def expand_cron(text: str) -> str:
    """Return the five cron fields of ``text``, a cron expression or a preset.

    Raises:
        ConfigError: ``text`` is neither, or has fields that trainfeed refuses.
    """
    cron = " ".join(PRESETS.get(text, text[:_MAX_CRON_CHARS]).split())
    problem = _cron_problem(cron) if len(text) <= _MAX_CRON_CHARS else "it is too long"
    if problem is not None:
        raise ConfigError(
            "expected five cron fields (minute, hour, day, month, weekday) or one of"
            f" {', '.join(PRESETS)}, got {text[:_MAX_CRON_CHARS]!r}: {problem}"
        )
    return cron


# Cached: hundreds of data sets share a few schedules.
@lru_cache(maxsize=_MAX_CRONS)
def _cron_problem(cron: str) -> str | None:
    if len(cron.split()) != 5:
        return f"the number of its fields is {len(cron.split())}"
    if _DRAWN.search(cron):
        return "H and R stand for other times in every process"
    try:
        croniter(cron, 0).get_next()
    except CroniterBadDateError:
        return "no date matches it"
    except CroniterError as error:
        return str(error)
    return None


_DAY, _HOUR, _MINUTE = "%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H%M"
_ONE_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_SMALLEST: Final = timedelta(microseconds=1)


class Ticks:
    """The ticks of a cron expression, and the names of the intervals that start at them.

    In a zone the fields are those of its clocks. Where these are put forward, a time that they
    leave out counts at the change itself; where they are put back, a time that they show twice
    counts the first time. So the change falls into one interval, which is longer or shorter. A
    schedule with ticks in every hour goes on by the hour instead: what its clocks show twice counts
    twice, and what they leave out does not count.

    Args:
        cron: Five cron fields or a preset; kept as five fields.
        zone: Name of a time zone; None for UTC.

    Raises:
        ConfigError: ``cron`` is no cron expression, or ``zone`` no zone.
    """

    def __init__(self, cron: str, zone: str | None = None) -> None:
        self.cron = expand_cron(cron)
        self.zone = zone
        self._rules = None if zone is None else zone_rules(zone)
        minutes, hours, *_ = croniter.expand(self.cron)[0]
        self._is_fine = len(minutes) > 1 or minutes == ["*"]
        self._is_in_every_hour = hours == ["*"] or len(set(hours)) == 24
        self._name_format = _MINUTE if self._is_fine else _DAY
        if not self._is_fine and (len(hours) > 1 or hours == ["*"]):
            self._name_format = _HOUR
        # Minutes of the day with a tick, if all days are alike: croniter takes a hundred times as
        # long.
        self._minutes: list[int] | None = None
        if self.cron.split(" ")[2:] == ["*", "*", "*"]:
            of_hour = range(60) if minutes == ["*"] else sorted({int(m) for m in minutes})
            of_day = range(24) if hours == ["*"] else sorted({int(h) for h in hours})
            self._minutes = [hour * 60 + minute for hour in of_day for minute in of_hour]

    def name(self, tick: datetime) -> str:
        """Return the name of the interval that starts at a tick: its time in UTC.

        Without a zone a name has no time of day, or no minutes, if the schedule has one tick a day
        or an hour. In a zone these say when its day or hour starts, so a name has the hour, and
        the minute where that is not 0.
        """
        if self._rules is None or self._is_fine:
            return tick.strftime(self._name_format)
        return tick.strftime(_MINUTE if tick.minute else _HOUR)

    def may_be_name(self, text: str, time: datetime) -> bool:
        """Return whether names of the schedule are written like ``text``, which means ``time``."""
        if self._rules is None or self._is_fine:
            return time.strftime(self._name_format) == text
        return text in (time.strftime(_HOUR), time.strftime(_MINUTE))

    def is_tick(self, time: datetime) -> bool:
        """Return whether an aware UTC time is a tick."""
        whole = time.replace(microsecond=0)
        return time == whole == self.after(whole - _SECOND)

    def after(self, time: datetime) -> datetime:
        """Return the first tick after an aware UTC time.

        Raises:
            WindowError: It lies beyond the year 9998.
        """
        rules = self._rules
        if rules is None:
            return self._plain_after(time)
        if not self._is_in_every_hour:
            local = rules.local(time)
            while True:
                local = self._plain_after(local)
                if (moment := rules.first_moment(local)) > time:
                    return moment
        at, before = time, timedelta(0)
        while True:
            offset = rules.offset(at)
            tick = self._plain_after(at + offset - before) - offset
            change = next(rules.changes(at, tick), None)
            if change is None:
                return tick
            at, before = change.at, _SMALLEST

    def before(self, time: datetime) -> datetime:
        """Return the last tick before an aware UTC time.

        Raises:
            WindowError: It lies before the year 1970.
        """
        rules = self._rules
        if rules is None:
            return self._plain_before(time)
        if not self._is_in_every_hour:
            local = rules.latest_local(time)
            while True:
                local = self._plain_before(local)
                if (moment := rules.first_moment(local)) < time:
                    return moment
        while True:
            last = time - _SMALLEST
            offset = rules.offset(last)
            tick = self._plain_before(time + offset) - offset
            changes = [each.at for each in rules.changes(tick, last)]
            if not changes:
                return tick
            time = changes[-1]

    def following(self, tick: datetime) -> Iterator[datetime]:
        """Yield the ticks after a tick, in order, without end."""
        # One croniter for all of them is faster than one for each.
        ticks = croniter(self.cron, tick) if self._rules is None and not self._minutes else None
        while True:
            tick = self.after(tick) if ticks is None else _move(ticks.get_next)
            yield tick

    def _plain_after(self, time: datetime) -> datetime:
        minutes = self._minutes
        if minutes is None or time.year not in _PLAIN_YEARS:
            return _move(croniter(self.cron, time).get_next)
        number = bisect_right(minutes, time.hour * 60 + time.minute)
        if number == len(minutes):
            number, time = 0, time + _ONE_DAY
        hour, minute = divmod(minutes[number], 60)
        return time.replace(hour=hour, minute=minute, second=0, microsecond=0)

    def _plain_before(self, time: datetime) -> datetime:
        minutes = self._minutes
        if minutes is None or time.year not in _PLAIN_YEARS:
            return _move(croniter(self.cron, time).get_prev)
        has_part = time.second > 0 or time.microsecond > 0
        number = bisect_left(minutes, time.hour * 60 + time.minute + has_part)
        if number == 0:
            number, time = len(minutes), time - _ONE_DAY
        hour, minute = divmod(minutes[number - 1], 60)
        return time.replace(hour=hour, minute=minute, second=0, microsecond=0)


# Cached: hundreds of data sets share a few schedules.
ticks_of: Final = lru_cache(maxsize=_MAX_CRONS)(Ticks)


def _move(step: Callable[[type[datetime]], datetime]) -> datetime:
    try:
        return step(datetime)
    except (ValueError, OverflowError):  # croniter's own errors are ValueErrors, too
        raise WindowError("expected a tick in the years 1970 to 9998, got past them") from None
