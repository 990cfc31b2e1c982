"""The lookup files: their bytes depend on the data alone."""

import pyarrow.parquet

from examples.flights.lookups import write_lookups
from tests.unit.flights.conftest import PLANE, WEATHER, departure, install

HOURS = [WEATHER | {"origin": o, "time_hour": f"2013-01-01T{hour}:00:00Z"}
         for o in ("JFK", "EWR") for hour in (12, 11)]  # fmt: skip
PLANES = [PLANE | {"tailnum": tail} for tail in ("N3", "N1", "N2")]


def test_equal_data_in_another_order_gives_equal_bytes(tmp_path):
    digests = []
    for name, turn in (("a", 1), ("b", -1)):
        folder = tmp_path / name
        data = install(folder, [departure()], weather=HOURS[::turn], planes=PLANES[::turn])
        digests.append(write_lookups(data, folder))
    assert digests[0] == digests[1]
    assert set(digests[0]) == {"planes.parquet", "weather.parquet"}


def test_files_are_sorted_by_key_and_nothing_else_is_left(tmp_path):
    data = install(tmp_path / "data", [departure()], weather=HOURS, planes=PLANES)
    folder = tmp_path / "flights"
    folder.mkdir()
    write_lookups(data, folder)
    write_lookups(data, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["planes.parquet", "weather.parquet"]
    planes = pyarrow.parquet.read_table(folder / "planes.parquet")
    weather = pyarrow.parquet.read_table(folder / "weather.parquet")
    assert planes["tailnum"].to_pylist() == ["N1", "N2", "N3"]
    keys = list(zip(weather["origin"].to_pylist(), weather["time_hour"].to_pylist(), strict=True))
    assert keys == sorted(keys)
