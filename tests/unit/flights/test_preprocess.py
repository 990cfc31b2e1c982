"""A record becomes a sample, is filtered, or gets a reason for quarantine."""

import json

import numpy as np
import pyarrow as pa
import pytest

from examples.flights.events import read_events
from examples.flights.planted import KINDS, break_line
from examples.flights.tables import read_planes, read_weather
from tests.unit.flights.conftest import CANCELLED, DIVERTED, FOLDER, SOUND
from trainfeed.preprocessing import Filtered, Record, Reject
from trainfeed.specification import load_spec

INDICES = [
    24296, 29466, 9894, 61712, 57585, 47245, 6595, 56881, 25548, 32702,
    23388, 20175, 60663, 180, 34152, 60467, 35405, 3273, 16196, 55416,
]  # fmt: skip
VALUES = (
    "cdcccc3eefeecebf9a99993e6666e63d00000000448b4cbf986e32bf"
    "250601bdc4b9733d0000000000000000000020bf0000000000000000"
)


@pytest.fixture
def module(load):
    return load("preprocess")


@pytest.fixture
def lookups(data):
    return {"weather": read_weather(data), "planes": read_planes(data)}


@pytest.fixture
def flights(module, lookups):
    def flights(value, lookups=lookups):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return module.flights(Record(data, b"UA1545", 0, (), "kafka:flights/3", 0), lookups)

    return flights


@pytest.fixture
def reason(flights):
    def reason(value):
        with pytest.raises(Reject) as caught:
            flights(value)
        return caught.value.reason, caught.value.message

    return reason


def test_a_sample_is_what_the_schema_says(flights):
    fields = load_spec(FOLDER).fields
    sample = flights(SOUND)
    assert list(sample) == list(fields)
    for name in ("indices", "values"):
        assert (sample[name].dtype, sample[name].shape) == (fields[name].dtype, fields[name].shape)
    assert sample["indices"].min() >= 0
    assert sample["indices"].max() < 65536


@pytest.mark.parametrize(("delay", "label"), [(-40, 0), (14, 0), (15, 1), (600, 1)])
def test_late_begins_with_15_minutes(flights, delay, label):
    assert flights(SOUND | {"arr_delay": delay})["label"] == label


def test_the_outcome_of_a_flight_reaches_nothing_but_the_label(flights):
    outcome = {"dep_time": 2400, "dep_delay": 999, "arr_time": 1, "arr_delay": 14, "air_time": 9}
    before, after = flights(SOUND), flights(SOUND | outcome)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])


def test_equal_records_give_equal_bytes_in_another_process(flights):
    # Literal, so that a hash seeded per process, or another version of it, does not go unseen.
    sample = flights(SOUND)
    assert sample["indices"].tolist() == INDICES
    assert sample["values"].tobytes().hex() == VALUES


def test_a_cancelled_flight_is_filtered(flights):
    assert flights(SOUND | CANCELLED) == Filtered("cancelled")


def test_a_flight_that_did_not_arrive_where_it_should_is_filtered(flights):
    assert flights(SOUND | DIVERTED) == Filtered("diverted")


def test_weather_and_aircraft_are_joined(flights):
    known = flights(SOUND)
    no_weather = flights(SOUND | {"time_hour": "2013-01-01T11:00:00Z"})
    no_plane = flights(SOUND | {"tailnum": "N00000"})
    assert known["values"][[4, 13]].tolist() == [0, 0]
    assert no_weather["values"][[4, 13]].tolist() == [0, 1]
    assert no_plane["values"][[4, 13]].tolist() == [1, 0]
    assert no_weather["values"][5:13].tolist() == [0] * 8
    assert no_plane["values"][2:4].tolist() == [0, 0]


def test_no_tail_number_is_an_unknown_aircraft(flights):
    unknown = flights(SOUND | {"tailnum": None})
    assert unknown["values"][4] == 1


def test_missing_measurements_count_as_typical(flights, lookups):
    weather = lookups["weather"].to_pylist()[0]
    empty = weather | dict.fromkeys(set(weather) - {"origin", "time_hour"})
    planes = lookups["planes"].to_pylist()[0] | {"year": None}
    tables = {
        "weather": pa.Table.from_pylist([empty], schema=lookups["weather"].schema),
        "planes": pa.Table.from_pylist([planes], schema=lookups["planes"].schema),
    }
    assert flights(SOUND, tables)["values"][4:].tolist() == [0] * 10
    assert flights(SOUND, tables)["values"][2] == 0


def test_an_index_belongs_to_its_table(flights, lookups):
    first = flights(SOUND)["values"].tolist()
    windy = lookups["weather"].to_pylist()[0] | {"wind_speed": 60.0}
    other = lookups | {"weather": pa.Table.from_pylist([windy], schema=lookups["weather"].schema)}
    assert flights(SOUND, other)["values"].tolist() != first
    assert flights(SOUND)["values"].tolist() == first


def test_every_planted_line_is_rejected_and_nothing_else(flights, data):
    for event in read_events(data).to_pylist():
        try:
            fate = flights(event["value"])
        except Reject:
            assert event["fate"] == "quarantined"
        else:
            got = f"filtered:{fate.reason}" if isinstance(fate, Filtered) else "sample"
            assert event["fate"] == got


@pytest.mark.parametrize("number", range(40))
@pytest.mark.parametrize("row", [SOUND, SOUND | CANCELLED, SOUND | DIVERTED])
def test_every_kind_of_broken_line_has_its_reason(reason, number, row):
    reasons = ("not_json", "not_json", "missing_field", "out_of_range")
    line = json.dumps({"id": 1} | row).encode()
    assert reason(break_line(number, line))[0] == reasons[number % len(KINDS)]


@pytest.mark.parametrize(
    ("fields", "expected", "message"),
    [
        ({"distance": -1}, "out_of_range", "distance: expected 1 to 20000, got -1"),
        ({"month": 2, "day": 30}, "out_of_range", "day: day is out of range for month"),
        ({"sched_dep_time": 575}, "out_of_range", "sched_dep_time: 575 is no time of day"),
        ({"distance": "far"}, "wrong_type", "distance: expected a whole number, got 'far'"),
        ({"distance": True}, "wrong_type", "distance: expected a whole number, got True"),
        ({"distance": None}, "wrong_type", "distance: expected a whole number, got None"),
        ({"arr_delay": 11.5}, "wrong_type", "arr_delay: expected a whole number, got 11.5"),
        ({"origin": None}, "wrong_type", "origin: expected text, got None"),
        ({"tailnum": 7}, "wrong_type", "tailnum: expected text or null, got 7"),
    ],
)
def test_a_wrong_field_is_named(reason, fields, expected, message):
    assert reason(SOUND | fields) == (expected, message)


@pytest.mark.parametrize("name", sorted(SOUND.keys() - {"dep_delay", "arr_time", "air_time",
                                                        "hour", "minute"}))  # fmt: skip
def test_a_missing_field_is_named(reason, name):
    rest = {key: value for key, value in SOUND.items() if key != name}
    assert reason(rest) == ("missing_field", name)


@pytest.mark.parametrize("value", [b"[]", b"7", b"null", b'"departure"'])
def test_json_that_is_no_object_is_rejected(reason, value):
    assert reason(value)[0] == "not_an_object"
