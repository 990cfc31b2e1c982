"""What departures are joined with: the weather of an hour, and aircraft."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

__all__ = [
    "NO_PLANE",
    "NO_WEATHER",
    "SCALES",
    "Plane",
    "Weather",
    "indexed",
    "plane_by_tail",
    "rain_of",
    "scaled",
    "sight_of",
    "weather_by_hour",
    "wind_of",
]


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


# What is measured, by the column's name: a typical value, and how far others are from it.
SCALES: Final[Mapping[str, tuple[float, float]]] = {
    "temp": (55, 20),
    "dewp": (40, 20),
    "humid": (60, 20),
    "wind_speed": (10, 6),
    "wind_gust": (0, 30),
    "precip": (0, 0.3),
    "pressure": (1017, 8),
    "visib": (10, 5),
}
NO_WEATHER: Final = Weather((0.0,) * 8 + (1.0,), "?", "?", "?")
NO_PLANE: Final = Plane(None, 0, "?", "?", "?")


# Per kind of index the table that was seen last and its index. The table itself is compared, not
# its content: a process builds an index once, for as long as it is given the same table.
_INDEXES: Final[dict[str, tuple[pa.Table, Any]]] = {}


def indexed(name: str, lookups: Mapping[str, pa.Table], build: Callable[[pa.Table], Any]) -> Any:
    """Return what ``build`` makes of the lookup called ``name``."""
    table, index = _INDEXES.get(build.__name__, (None, None))
    if table is not lookups[name]:
        index = build(lookups[name])
        _INDEXES[build.__name__] = (lookups[name], index)
    return index


def plane_by_tail(table: pa.Table) -> dict[str, Plane]:
    """Return tail number → aircraft."""
    return {
        row["tailnum"]: Plane(
            row["year"], row["seats"], row["model"], row["manufacturer"], row["engine"]
        )
        for row in table.to_pylist()
    }


def weather_by_hour(table: pa.Table) -> dict[tuple[str, str], Weather]:
    """Return (airport, hour) → observation."""
    return {(row["origin"], row["time_hour"]): _weather(row) for row in table.to_pylist()}


def _weather(row: Mapping[str, Any]) -> Weather:
    measures = [scaled(row[name], typical, spread) for name, (typical, spread) in SCALES.items()]
    sight, rain = sight_of(row["visib"]), rain_of(row["precip"])
    return Weather((*measures, 0.0), wind_of(row["wind_dir"]), sight, rain)


def scaled(value: float | None, typical: float, spread: float) -> float:
    """Return a measure around 0; 0 where it is missing."""
    return 0.0 if value is None else (value - typical) / spread


def wind_of(direction: float | None) -> str:
    """Return the class of a wind's direction in degrees."""
    return "?" if direction is None else f"{direction // 45}"


def sight_of(visib: float | None) -> str:
    """Return the class of a visibility in miles."""
    return "?" if visib is None else _class_of(visib, (0.5, 1, 3, 6, 9))


def rain_of(precip: float | None) -> str:
    """Return the class of rain in inches."""
    return "?" if precip is None else _class_of(precip, (0.001, 0.02, 0.1))


def _class_of(value: float, limits: Iterable[float]) -> str:
    return f"{sum(value >= limit for limit in limits)}"
