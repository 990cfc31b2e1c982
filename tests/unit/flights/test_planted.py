"""Broken lines: which, where, and that they are broken."""

import json

import pytest

from examples.flights.events import read_events
from examples.flights.planted import FIRST_PLANTED_ID, KINDS, break_line, kind_of

LINE = json.dumps({"id": 1, "month": 1, "sched_dep_time": 515, "origin": "EWR", "distance": 1400,
                   "arr_delay": 11, "carrier": "UA", "padding": "x" * 200}).encode()  # fmt: skip


def test_every_200th_departure_is_followed_by_a_broken_copy(data):
    events = read_events(data).to_pylist()
    sound = [event for event in events if event["planted"] is None]
    planted = [event for event in events if event["planted"] is not None]
    assert [event["planted"] for event in planted] == list(KINDS)
    for number, event in enumerate(planted):
        original = sound[200 * (number + 1) - 1]
        assert event["event_id"] == FIRST_PLANTED_ID + number
        assert event["fate"] == "quarantined"
        assert event["label"] is None
        assert event["value"] != original["value"]
        for name in ("timestamp_ms", "key", "partition"):
            assert event[name] == original[name]


def test_kinds_take_turns():
    assert [kind_of(number) for number in range(5)] == [*KINDS, KINDS[0]]


@pytest.mark.parametrize("number", [n for n in range(0, 800, 9) if kind_of(n) in KINDS[:2]])
def test_neither_garbage_nor_a_truncated_line_is_json(number):
    with pytest.raises(ValueError, match=r"char|delimiter|value"):
        json.loads(break_line(number, LINE))


@pytest.mark.parametrize("number", range(2, 42, 4))
def test_one_field_is_missing(number):
    event, broken = json.loads(LINE), json.loads(break_line(number, LINE))
    assert len(broken) == len(event) - 1
    assert broken.items() < event.items()


@pytest.mark.parametrize("number", range(3, 43, 4))
def test_one_number_is_impossible(number):
    event, broken = json.loads(LINE), json.loads(break_line(number, LINE))
    (changed,) = [name for name in event if broken[name] != event[name]]
    assert changed in {"distance", "sched_dep_time", "month", "arr_delay"}
