"""The weather as arrays equals the weather by hour."""

import pyarrow as pa

from examples.flights.tables import read_weather
from tests.unit.flights.conftest import WEATHER, install

HOURS = [
    WEATHER,
    WEATHER | {"hour": 6, "wind_dir": None, "visib": 0.25, "precip": 0.02, "temp": None},
    WEATHER | {"hour": 7, "wind_dir": 0, "visib": None, "precip": None, "wind_gust": 23.0},
    # The last one counts.
    WEATHER | {"temp": 12.5, "wind_dir": 90},
]


def test_rows_are_the_hours(load, tmp_path):
    rows = [row | {"time_hour": f"2013-01-01T{row['hour'] + 5:02d}:00:00Z"} for row in HOURS]
    table = read_weather(install(tmp_path, [WEATHER], weather=rows))
    assert len(table) == len(rows)
    arrays, lookups = load("lookup_arrays"), load("lookups")
    found = arrays.weather_arrays(table)
    expected = lookups.weather_by_hour(table)
    assert list(found.places) == list(expected)
    for row, hour in enumerate([*expected.values(), lookups.NO_WEATHER]):
        assert tuple(found.values[row]) == hour.values
        assert found.names[found.classes[row]] == hour.wind


def test_there_may_be_no_weather(load):
    lookups, schema = load("lookups"), {"origin": pa.utf8(), "time_hour": pa.utf8()}
    schema |= {"wind_dir": pa.int64(), **dict.fromkeys(lookups.SCALES, pa.float64())}
    found = load("lookup_arrays").weather_arrays(pa.schema(schema).empty_table())
    assert found.places == {}
    assert found.values.tolist() == [list(lookups.NO_WEATHER.values)]
    assert found.names == ["?"]
