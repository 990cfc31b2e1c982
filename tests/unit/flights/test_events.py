"""The event log: order, places, bytes, and local time → UTC."""

import json
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest

from examples.flights.events import (
    EVENT_SCHEMA,
    departure_times,
    read_events,
    select_days,
    with_offsets,
)
from examples.flights.tables import DEPARTURE_SCHEMA, read_departures
from tests.unit.flights.conftest import departure, install
from trainfeed.errors import ConfigError


def times_of(*rows):
    table = pa.Table.from_pylist([departure(**row) for row in rows], schema=DEPARTURE_SCHEMA)
    stamps = departure_times(table)
    return [datetime.fromtimestamp(stamp / 1000, UTC).strftime("%m-%dT%H:%M") for stamp in stamps]


def test_events_stand_in_the_order_of_time_then_id(data):
    events = read_events(data)
    places = list(zip(*(events[n].to_pylist() for n in ("timestamp_ms", "event_id")), strict=True))
    assert events.schema == EVENT_SCHEMA
    assert places == sorted(places)
    assert len({event_id for _, event_id in places}) == 900 + 4


def test_two_readings_give_the_same_log(data):
    assert read_events(data).equals(read_events(data))


def test_the_order_of_the_file_decides_about_equal_times_only(tmp_path):
    rows = [departure(sched_dep_time=clock, flight=n) for n, clock in enumerate((700, 600, 700), 1)]
    events = read_events(install(tmp_path, rows))
    assert events["event_id"].to_pylist() == [2, 1, 3]


def test_a_value_is_the_whole_row_as_json_with_the_event_id(data):
    rows = read_departures(data).to_pylist()
    events = read_events(data)
    for event in events.filter(events["planted"].is_null()).to_pylist():
        expected = {"id": event["event_id"]} | rows[event["event_id"] - 1]
        assert event["value"] == json.dumps(expected).encode()


def test_text_is_quoted_as_json(tmp_path):
    row = departure(tailnum='N"1\\é')
    (event,) = read_events(install(tmp_path, [row])).to_pylist()
    assert json.loads(event["value"])["tailnum"] == 'N"1\\é'


@pytest.mark.parametrize(
    ("carrier", "flight", "partition"), [("UA", 1545, 3), ("UA", 1714, 2), ("AA", 1141, 3)]
)
def test_the_partition_is_a_fixed_function_of_the_key(tmp_path, carrier, flight, partition):
    row = departure(carrier=carrier, flight=flight)
    (event,) = read_events(install(tmp_path, [row])).to_pylist()
    assert (event["key"], event["partition"]) == (f"{carrier}{flight}".encode(), partition)


def test_offsets_count_from_zero_in_every_partition(data):
    placed = with_offsets(read_events(data))
    for partition in range(4):
        mine = placed.filter(placed["partition"].to_numpy() == partition)
        assert mine["offset"].to_pylist() == list(range(len(mine)))


def test_offsets_of_days_in_turn_are_those_of_all_days_at_once(data):
    events = read_events(data)
    days = [select_days(events, date(2013, 1, n), date(2013, 1, n)) for n in (1, 2, 3, 4)]
    assert with_offsets(pa.concat_tables(days)).equals(with_offsets(events))


def test_summer_time_begins_and_ends_where_it_does_in_new_york():
    assert times_of(
        {"month": 1, "day": 1, "sched_dep_time": 515},
        {"month": 3, "day": 10, "sched_dep_time": 159},
        {"month": 3, "day": 10, "sched_dep_time": 300},
        {"month": 7, "day": 1, "sched_dep_time": 2359},
        {"month": 11, "day": 3, "sched_dep_time": 59},
        {"month": 11, "day": 3, "sched_dep_time": 130},
        {"month": 11, "day": 3, "sched_dep_time": 200},
        {"month": 12, "day": 31, "sched_dep_time": 2359},
    ) == [
        "01-01T10:15",
        "03-10T06:59",
        "03-10T07:00",
        "07-02T03:59",
        "11-03T04:59",
        "11-03T05:30",  # exists twice; the first one counts
        "11-03T07:00",
        "01-01T04:59",
    ]


def test_days_are_utc_days(data):
    events = select_days(read_events(data), date(2013, 1, 2), date(2013, 1, 2))
    stamps = events["timestamp_ms"].to_numpy()
    start = datetime(2013, 1, 2, tzinfo=UTC).timestamp() * 1000
    assert start <= stamps.min()
    assert stamps.max() < start + 86_400_000


def test_events_after_the_last_day_come_when_asked_for(data):
    events = read_events(data)
    day = select_days(events, date(2013, 1, 1), date(2013, 1, 1))
    more = select_days(events, date(2013, 1, 1), date(2013, 1, 1), following=5)
    assert more.slice(0, len(day)).equals(day)
    assert more.equals(events.slice(0, len(day) + 5))


def test_days_without_a_departure_are_refused(data):
    with pytest.raises(ConfigError, match="expected days from 2013-01-01 to 2013-01-04"):
        select_days(read_events(data), date(2014, 5, 1), date(2014, 5, 2))


def test_missing_data_says_how_to_get_it(tmp_path):
    with pytest.raises(ConfigError, match=r"requirements/examples\.txt"):
        read_events(tmp_path)


def test_what_has_to_become_of_a_departure_follows_from_its_row(data):
    events = read_events(data)
    fates = np.array(events["fate"].to_pylist())
    for event in events.filter(fates == "sample").to_pylist():
        row = json.loads(event["value"])
        assert event["label"] == (row["arr_delay"] >= 15)
    for event in events.filter(fates == "filtered:cancelled").to_pylist():
        assert json.loads(event["value"])["dep_time"] is None
    assert set(fates) == {"sample", "quarantined", "filtered:cancelled", "filtered:diverted"}
