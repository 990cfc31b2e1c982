"""The recorded topic: equal to what a broker would hold, and to itself."""

import shutil
import sqlite3
from contextlib import closing
from datetime import date

import pyarrow as pa
import pytest

from examples.flights.events import read_events, select_days, with_offsets
from examples.flights.recording import record
from trainfeed.errors import ConflictError
from trainfeed.files.stores import Location
from trainfeed.sources import RecordedTopic


@pytest.fixture
def events(data):
    return read_events(data)


def open_topic(folder):
    return RecordedTopic(Location.parse(str(folder)))


def read_back(folder):
    with open_topic(folder) as topic:
        ranges = {number: topic.log_range(number) for number in topic.partitions()}
        return {
            number: pa.Table.from_batches(topic.iter_batches(number, *span))
            for number, span in ranges.items()
        }


def test_every_event_is_at_its_offset(tmp_path, events):
    record(events, tmp_path / "flights", topic="flights")
    placed = with_offsets(events)
    for partition, table in read_back(tmp_path / "flights").items():
        mine = placed.filter(placed["partition"].to_numpy() == partition)
        for here, there in (("offset",) * 2, ("timestamp_ms", "timestamp"), ("key",) * 2,
                            ("value",) * 2):  # fmt: skip
            assert table[there].to_pylist() == mine[here].to_pylist()
        assert set(table["timestamp_type"].to_pylist()) == {1}
        assert table["headers"].to_pylist() == [[]] * len(table)


def test_recording_again_changes_nothing(tmp_path, events):
    first = record(events, tmp_path / "flights", topic="flights")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "flights").rglob("*")}
    again = record(events, tmp_path / "flights", topic="flights")
    assert (first["verdict"], again["verdict"]) == ("recorded", "identical")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "flights").rglob("*")} == before


def test_the_id_is_a_function_of_the_content(tmp_path, events):
    whole = record(events, tmp_path / "a", topic="flights")
    same = record(events, tmp_path / "b", topic="flights")
    day = select_days(events, date(2013, 1, 1), date(2013, 1, 1))
    part = record(day, tmp_path / "c", topic="flights")
    assert whole["uuid"] == same["uuid"] != part["uuid"]
    assert open_topic(tmp_path / "a").identity.uuid == whole["uuid"]


def test_another_recording_in_the_folder_is_kept(tmp_path, events):
    day = select_days(events, date(2013, 1, 1), date(2013, 1, 1))
    first = record(day, tmp_path / "flights", topic="flights")
    with pytest.raises(ConflictError, match="nothing was written; remove it"):
        record(events, tmp_path / "flights", topic="flights")
    assert open_topic(tmp_path / "flights").identity.uuid == first["uuid"]


def test_a_folder_with_something_else_is_kept(tmp_path, events):
    (tmp_path / "flights").mkdir()
    (tmp_path / "flights" / "notes.txt").write_text("mine")
    with pytest.raises(ConflictError, match="no recorded topic"):
        record(events, tmp_path / "flights", topic="flights")
    assert [path.name for path in tmp_path.rglob("*")] == ["flights", "notes.txt"]


def test_the_ledger_has_every_event_once_however_often_it_is_asked_for(tmp_path, events):
    path = tmp_path / "ledger.sqlite"
    for _ in range(2):
        result = record(events, tmp_path / "flights", topic="flights", ledger_path=path)
    with closing(sqlite3.connect(path)) as database:
        places = set(database.execute("SELECT event_id, partition, offset FROM events"))
        (owner,) = database.execute("SELECT name, uuid FROM topic")
    placed = with_offsets(events)
    columns = (placed[name].to_pylist() for name in ("event_id", "partition", "offset"))
    assert places == set(zip(*columns, strict=True))
    assert owner == ("flights", result["uuid"])


def test_a_recording_that_fails_leaves_no_folder(tmp_path, events, monkeypatch):
    monkeypatch.setattr(shutil, "move", lambda *_: (_ for _ in ()).throw(OSError("disk is full")))
    with pytest.raises(OSError, match="disk is full"):
        record(events, tmp_path / "flights", topic="flights")
    assert list(tmp_path.iterdir()) == []
