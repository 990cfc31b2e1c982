"""What departures are joined with: the weather of an hour, and aircraft."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

__all__ = [
    "NO_PLANE",
    "NO_WEATHER",
    "Plane",
    "Weather",
    "indexed",
    "plane_by_tail",
    "weather_by_hour",
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
