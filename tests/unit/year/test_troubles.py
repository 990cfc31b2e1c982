"""The troubles of a year, planted into a small log."""

import json
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest

from examples.flights.events import EVENT_SCHEMA, NUM_PARTITIONS
from examples.year.troubles import ACCOUNT_COLUMNS, SHORT, account_of, plant

DAY_MS = 86_400_000
START_MS = int(datetime(2013, 1, 1, tzinfo=UTC).timestamp() * 1000)
A_DAY = 300
DAYS = 10


@pytest.fixture(scope="module")
def events():
    numbers = range(DAYS * A_DAY)
    rows = [
        {
            "event_id": n,
            "timestamp_ms": START_MS + n * (DAY_MS // A_DAY),
            "partition": n % NUM_PARTITIONS,
            "key": b"UA1",
            "value": json.dumps({"id": n, "carrier": "UA"}).encode(),
            "planted": None,
            "fate": "sample",
            "label": n % 2,
        }
        for n in numbers
    ]
    return pa.Table.from_pylist(rows, schema=EVENT_SCHEMA)


@pytest.fixture(scope="module")
def log(events):
    return plant(events, SHORT)


def of_day(log, day):
    days = log["timestamp_ms"].to_numpy() // DAY_MS
    number = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) // 86_400
    return np.flatnonzero(days == number)


def test_a_day_that_never_comes_has_no_event_and_all_others_have_theirs(events, log):
    (never,) = SHORT.never
    gone = set(events.take(of_day(events, never))["event_id"].to_pylist())
    assert len(gone) == A_DAY
    assert set(log["event_id"].to_pylist()) == set(events["event_id"].to_pylist()) - gone


def test_late_events_keep_their_stamps_and_come_behind_some_of_the_next_day(log):
    (late,) = SHORT.late
    stamps = log["timestamp_ms"].to_numpy()
    places = of_day(log, late)
    behind = places[np.flatnonzero(np.diff(places) > 1)[0] + 1 :]
    assert len(behind) == 40
    assert behind[0] - places[len(places) - 41] == 151
    assert (np.diff(np.delete(stamps, behind)) >= 0).all()


@pytest.mark.parametrize(("day", "count"), [(SHORT.renamed[0], 15), (SHORT.mild[0], 1)])
def test_renamed_events_are_refused_by_the_first_function_only(log, day, count):
    rows = log.take(of_day(log, day)).to_pylist()
    renamed = [row for row in rows if b'"airline": "UA"' in row["value"]]
    assert len(renamed) == count
    assert {(row["early_fate"], row["fate"]) for row in renamed} == {("quarantined", "sample")}
    others = [row for row in rows if row not in renamed]
    assert {(row["early_fate"], b"carrier" in row["value"]) for row in others} == {("sample", True)}


def test_the_account_has_the_place_of_every_event_in_the_log(log):
    rows = account_of(log).to_pylist()
    assert list(rows[0]) == list(ACCOUNT_COLUMNS)
    for partition in range(NUM_PARTITIONS):
        mine = [row["offset"] for row in rows if row["partition"] == partition]
        assert mine == list(range(len(mine)))


def test_every_trouble_of_the_short_year_has_a_day_of_its_own():
    named = [*SHORT.never, *SHORT.unbuilt, *SHORT.late, *SHORT.renamed, *SHORT.mild]
    assert len(set(named)) == len(named)
    assert all(SHORT.first <= day <= SHORT.last for day in named)
    assert date(2013, 1, 7) == SHORT.fixed
