"""Time zones of schedules: rules of the package tzdata, and never those of the machine's files.

The machine has a zone database, too, and another machine has another release of it. Intervals that
are cut by two releases would overlap or leave holes, so every process reads the one that its
requirements pin, and the recorded schedule of a data set says which one that was.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module, resources
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from trainfeed.errors import ConfigError, WindowError

# Schedules without a zone are in UTC; a second name for that would give other names of intervals.
_UTC_NAMES: Final = frozenset(
    ("Etc/UCT", "Etc/UTC", "Etc/Universal", "Etc/Zulu", "UCT", "UTC", "Universal", "Zulu")
)
# A name in the database for "no zone was set".
_NO_ZONE: Final = "Factory"
_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_YEARS: Final = range(1969, 9999)


class ZoneChange(NamedTuple):
    """A moment, aware UTC, from which on the clocks of a zone have another distance to UTC."""

    at: datetime
    offset: timedelta


class ZoneRules:
    """The clocks of one zone.

    A *local time* here is what the clocks show, as a ``datetime`` that calls itself UTC: so local
    times are compared and added like moments.
    """

    def __init__(self, name: str, info: ZoneInfo) -> None:
        self.name = name
        self._info = info
        self._years: dict[int, list[ZoneChange]] = {}

    def offset(self, moment: datetime) -> timedelta:
        """Return how far the clocks are ahead of UTC at an aware time."""
        return self.local(moment) - moment

    def local(self, moment: datetime) -> datetime:
        """Return the local time of an aware time."""
        return moment.astimezone(self._info).replace(tzinfo=UTC, fold=0)

    def latest_local(self, moment: datetime) -> datetime:
        """Return a local time that no earlier moment has, nor any local time from it on.

        It is that of the moment, except while the clocks show an hour for the second time.
        """
        local = self.local(moment)
        return max(local, moment + (local - self._moment(local, fold=0)))

    def first_moment(self, local: datetime) -> datetime:
        """Return when the clocks show a local time first, aware UTC.

        Of a time that they leave out it is the moment at which they do.
        """
        before = self._moment(local, fold=0)
        if self.local(before) == local:
            return before
        return self._change(self._moment(local, fold=1), before)

    def changes(self, begin: datetime, end: datetime) -> Iterator[ZoneChange]:
        """Yield the changes in ``(begin, end]``, aware UTC, in order."""
        for year in range(begin.year, end.year + 1):
            for change in self._changes_of(year):
                if begin < change.at <= end:
                    yield change

    def _moment(self, local: datetime, fold: int) -> datetime:
        return local.replace(tzinfo=self._info, fold=fold).astimezone(UTC)

    def _changes_of(self, year: int) -> list[ZoneChange]:
        """Return the changes after the first moment of a year up to that of the next."""
        known = self._years.get(year)
        if known is None:
            known = []
            if year not in _YEARS:
                return known
            begin = datetime(year, 1, 1, tzinfo=UTC)
            days = (datetime(year + 1, 1, 1, tzinfo=UTC) - begin).days
            times = [begin + number * _DAY for number in range(days + 1)]
            offsets = [self.offset(time) for time in times]
            for number in range(days):
                if offsets[number] != offsets[number + 1]:
                    at = self._change(times[number], times[number + 1])
                    known.append(ZoneChange(at, offsets[number + 1]))
            self._years[year] = known
        return known

    def _change(self, low: datetime, high: datetime) -> datetime:
        """Return the first moment in ``(low, high]`` that has the offset of ``high``."""
        after = self.offset(high)
        low = low.replace(microsecond=0)
        while high - low > _SECOND:
            middle = low + ((high - low) / 2 // _SECOND) * _SECOND
            low, high = (low, middle) if self.offset(middle) == after else (middle, high)
        return high


@lru_cache(maxsize=64)
def zone_rules(name: str) -> ZoneRules:
    """Return the rules of a zone.

    Raises:
        ConfigError: ``name`` is no zone of the database, or one that is UTC.
    """
    if name in _UTC_NAMES:
        raise ConfigError(f"expected a zone other than UTC, got {name!r}; leave it out")
    if name not in _names() or name == _NO_ZONE:
        near = get_close_matches(name, _names(), 1)
        hint = f"did you mean {near[0]!r}?" if near else "use one like Europe/Berlin"
        raise ConfigError(f"expected the name of a time zone, got {name[:60]!r}; {hint}")
    folder = resources.files("tzdata").joinpath("zoneinfo")
    with folder.joinpath(*name.split("/")).open("rb") as file:
        return ZoneRules(name, ZoneInfo.from_file(file, key=name))


@lru_cache(maxsize=1)
def zone_release() -> str:
    """Return the release of the zone database that this process reads, such as 2026b."""
    return str(import_module("tzdata").IANA_VERSION)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    text = resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8")
    return frozenset(text.split())


def local_day(zone: str, text: str, day: datetime, next_day: datetime) -> tuple[datetime, datetime]:
    """Return when local days of a zone begin and end, aware UTC.

    Args:
        zone: The zone.
        text: The days as they were written.
        day: Midnight that begins the first of them, as a local time.
        next_day: Midnight after the last of them, likewise.

    Raises:
        WindowError: The zone left these days out, as Samoa did with 2011-12-30.
    """
    rules = zone_rules(zone)
    start, end = rules.first_moment(day), rules.first_moment(next_day)
    if start == end:
        raise WindowError(f"{text} does not exist: {zone} left it out; write a day that does")
    return start, end
