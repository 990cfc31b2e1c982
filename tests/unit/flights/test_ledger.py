"""The producer's ledger."""

import hashlib
import sqlite3
from contextlib import closing

import pytest

from examples.flights.events import read_events, with_offsets
from examples.flights.ledger import Ledger
from trainfeed.errors import ConflictError


@pytest.fixture
def placed(data):
    return with_offsets(read_events(data))


def rows_of(events):
    return [(event["partition"], event["offset"], event) for event in events.to_pylist()]


def test_it_holds_place_digest_and_fate_of_every_event(tmp_path, placed):
    path = tmp_path / "new" / "ledger.sqlite"
    with closing(Ledger(path, "flights", "id")) as ledger:
        ledger.add(rows_of(placed))
    with closing(sqlite3.connect(path)) as database:
        stored = set(database.execute("SELECT * FROM events"))
    assert stored == {
        (
            event["partition"],
            event["offset"],
            event["event_id"],
            event["timestamp_ms"],
            len(event["value"]),
            hashlib.sha256(event["value"]).hexdigest(),
            event["planted"],
            event["fate"],
            event["label"],
        )
        for event in placed.to_pylist()
    }


def test_opened_again_it_knows_what_it_has(tmp_path, placed):
    path = tmp_path / "ledger.sqlite"
    with closing(Ledger(path, "flights", "id")) as ledger:
        assert ledger.ends() == {}
        assert ledger.without_known(placed).equals(placed)
        ledger.add(rows_of(placed.slice(0, 300)))
    with closing(Ledger(path, "flights", "id")) as ledger:
        assert ledger.without_known(placed).equals(placed.slice(300))
        assert sum(ledger.ends().values()) == 300


def test_an_event_cannot_be_written_down_twice(tmp_path, placed):
    rows = rows_of(placed.slice(0, 2))
    with closing(Ledger(tmp_path / "ledger.sqlite", "flights", "id")) as ledger:
        ledger.add(rows[:1])
        with pytest.raises(sqlite3.IntegrityError):
            ledger.add([rows[1], (0, 9999, rows[0][2])])
        assert sum(ledger.ends().values()) == 1


@pytest.mark.parametrize(("topic", "uuid"), [("flights", "other"), ("departures", "id")])
def test_the_ledger_of_another_topic_is_refused(tmp_path, topic, uuid):
    path = tmp_path / "ledger.sqlite"
    Ledger(path, "flights", "id").close()
    with pytest.raises(ConflictError, match="it is that of flights with id id"):
        Ledger(path, topic, uuid)
