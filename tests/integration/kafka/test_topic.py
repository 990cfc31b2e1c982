"""A topic of a real broker: the records that are read, and missing records that are noticed."""

from __future__ import annotations

import io
import socket
import threading
import time

import pytest

from trainfeed.errors import (
    IngestError,
    OffsetOutOfRangeError,
    Outcome,
    SourceReplacedError,
    TopicNotFoundError,
)
from trainfeed.sources import (
    KafkaTopic,
    Known,
    LandingFile,
    LandingWriter,
    PartitionState,
    find_boundaries,
)

HOUR = 3_600_000
DAY = 24 * HOUR
START = 1_356_998_400_000  # 2013-01-01
YEAR_2099 = 4_070_908_800_000
# Brokers refuse records stamped more than an hour ahead unless told otherwise.
ANY_TIME = {"message_timestamp_after_max_ms": (1 << 63) - 1}


def numbered(count, *, first=0):
    return [{"value": b"%d" % i, "timestamp": START + i} for i in range(first, first + count)]


def stamps_of(topic, start):
    found = topic.read_stamps(0, start, topic.log_range(0)[1], max_records=100_000)
    return list(zip(found.offsets.tolist(), found.stamps.tolist(), strict=True))


def boundary_of(topic, at_ms, **known):
    found = find_boundaries(
        topic, at_ms, skew_ms=HOUR, clock_ms=START + 365 * DAY, known={0: Known(**known)}
    )
    return found[0]


def values_of(batches):
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def offsets_of(batches):
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_every_range_gives_what_was_produced(broker):
    """KA-16, KA-17: keys and values that are absent or empty, headers, a large record."""
    name = broker.create(**ANY_TIME)
    records = [
        {"value": b"a", "key": b"k", "timestamp": START},
        {"value": None, "key": b"deleted", "timestamp": START + 1},
        {"value": b"", "key": None, "timestamp": START + 2},
        {"value": b"\xff\xfe", "key": b"", "timestamp": 1},
        {"value": b"h", "headers": [("a", b"1"), ("a", None), ("é", b"")], "timestamp": YEAR_2099},
        {"value": b"x" * 900_000, "timestamp": START + 3},
        *numbered(5000, first=6),
    ]
    broker.produce(name, records)
    with broker.open(name) as topic:
        assert topic.partitions() == [0]
        assert topic.log_range(0) == (0, len(records))
        rows = [row for batch in topic.iter_batches(0, 0, 5006) for row in batch.to_pylist()]
        ranges = [(0, 0), (0, 1), (3, 7), (5005, 5006), (5006, 5006), (100, 4000)]
        found = [offsets_of(topic.iter_batches(0, *bounds)) for bounds in ranges]
        stamps = stamps_of(topic, 2)
    assert [row["offset"] for row in rows] == list(range(5006))
    assert [row["value"] for row in rows] == [record["value"] for record in records]
    assert [row["key"] for row in rows] == [record.get("key") for record in records]
    assert [row["timestamp"] for row in rows] == [record["timestamp"] for record in records]
    assert {row["timestamp_type"] for row in rows} == {1}
    headers = [[(h["key"], h["value"]) for h in row["headers"]] for row in rows]
    assert headers == [record.get("headers", []) for record in records]
    assert found == [list(range(*bounds)) for bounds in ranges]
    assert stamps == [(row["offset"], row["timestamp"]) for row in rows[2:]]


def test_a_stamp_that_the_broker_set_is_told_apart(broker):
    """KA-15."""
    name = broker.create(message_timestamp_type="LogAppendTime")
    broker.produce(name, numbered(2))
    with broker.open(name) as topic:
        (batch,) = topic.iter_batches(0, 0, 2)
        stamps = batch.column("timestamp").to_pylist()
        assert batch.column("timestamp_type").to_pylist() == [2, 2]
        assert stamps[0] > START + DAY
        assert topic.offsets_at({0: stamps[0]}) == {0: 0}


def test_a_range_lands_in_a_file_with_the_digest_of_its_records(broker):
    name = broker.create()
    broker.produce(name, numbered(3000))
    file = io.BytesIO()
    writer = LandingWriter(file)
    with broker.open(name) as topic:
        for batch in topic.iter_batches(0, 1000, 3000):
            writer.write(batch)
    writer.close({})
    landing = LandingFile.open(file)
    landing.verify()
    assert offsets_of(landing.iter_batches()) == list(range(1000, 3000))


def test_a_topic_that_grows_does_not_extend_a_range(broker):
    name = broker.create()
    broker.produce(name, numbered(20_000))
    with broker.open(name) as topic:
        batches = topic.iter_batches(0, 0, 20_000)
        found = offsets_of([next(batches)])
        broker.produce(name, numbered(100, first=20_000))
        found += offsets_of(batches)
        assert topic.log_range(0) == (0, 20_100)
    assert found == list(range(20_000))


def test_only_committed_records_are_seen_and_a_range_ends_on_their_markers(broker):
    """KA-09, KA-10."""
    name = broker.create()
    producer = broker.producer(transactional_id=name)
    producer.init_transactions(30)
    for commit, letter in ((True, b"a"), (False, b"b"), (True, b"c"), (False, b"d")):
        producer.begin_transaction()
        for stamp in range(3):
            producer.produce(name, value=letter, partition=0, timestamp=START + stamp)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    producer.begin_transaction()
    producer.produce(name, value=b"open", partition=0, timestamp=START)
    producer.flush(30)
    with broker.open(name) as topic:
        # Four transactions of three records and a marker; the open one is not stable.
        assert topic.log_range(0) == (0, 16)
        batches = list(topic.iter_batches(0, 0, 16))
        assert offsets_of(topic.iter_batches(0, 3, 8)) == []
        assert offsets_of(topic.iter_batches(0, 12, 16)) == []
        assert topic.states()[0].high_watermark == 17
        boundary = boundary_of(topic, START + DAY)
    producer.abort_transaction(30)
    assert values_of(batches) == [b"a"] * 3 + [b"c"] * 3
    assert offsets_of(batches) == [0, 1, 2, 8, 9, 10]
    assert (boundary.offset, boundary.record_timestamp_ms, boundary.log_end) == (16, None, 16)
    assert not boundary.is_settled


def test_compacted_records_leave_gaps_and_the_read_ends(broker):
    """KA-11."""
    name = broker.create(cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio=0.01)
    for step in range(4):
        keys = [{"value": b"v", "key": b"k", "timestamp": START + step * HOUR}] * 5
        broker.produce(name, keys)
    with broker.open(name) as topic:
        first = lambda: stamps_of(topic, 0)[0][0]  # noqa: E731
        broker.until(lambda: first() > 0)
        _, log_end = topic.log_range(0)
        offsets = offsets_of(topic.iter_batches(0, 0, log_end))
    assert log_end == 20
    assert 0 < len(offsets) < 20
    assert offsets[-1] == 19


def test_the_broker_says_which_topic_it_is(broker):
    name = broker.create(partitions=3)
    with broker.open(name) as topic, broker.open(name) as again:
        assert topic.partitions() == [0, 1, 2]
        assert topic.identity == again.identity
        assert topic.identity.topic == name
        assert len(topic.identity.uuid) == 22
        assert topic.identity.cluster
        assert topic.states()[2] == PartitionState(0, 0, 0, 0)
        with pytest.raises(TopicNotFoundError, match=r"partitions \[0, 1, 2\], got 3"):
            topic.log_range(3)


def test_deleted_records_are_named(broker):
    """KA-05."""
    name = broker.create()
    broker.produce(name, numbered(100))
    broker.delete_records(name, 40)
    with broker.open(name) as topic:
        assert topic.log_range(0) == (40, 100)
        pattern = rf"'{name}' partition 0 offsets \[30, 90\).*deleted offsets \[30, 40\)"
        with pytest.raises(OffsetOutOfRangeError, match=pattern):
            next(topic.iter_batches(0, 30, 90))
        with pytest.raises(OffsetOutOfRangeError, match="got 40"):
            topic.read_stamps(0, 39, 50, max_records=1)
        assert offsets_of(topic.iter_batches(0, 40, 90)) == list(range(40, 90))
        with pytest.raises(OffsetOutOfRangeError, match="planned end 101 > log end 100"):
            next(topic.iter_batches(0, 90, 101))


@pytest.mark.parametrize(("num_bytes", "before"), [(10, 1), (2_000, 39_000)])
def test_retention_that_advances_during_the_read_is_noticed(broker, num_bytes, before):
    """KA-06: behind the position, and ahead of the 64 MiB that the client fetches ahead."""
    name = broker.create()
    broker.produce(name, [{"value": bytes(num_bytes), "timestamp": START}] * 40_000)
    with broker.open(name) as topic:
        batches = topic.iter_batches(0, 0, 40_000)
        next(batches)
        broker.delete_records(name, before)
        with pytest.raises(OffsetOutOfRangeError, match=rf"deleted offsets \[0, {before}\)"):
            list(batches)


def test_a_topic_created_anew_under_the_same_name_is_another_source(broker):
    """KA-07."""
    name = broker.create()
    broker.produce(name, numbered(10))
    with broker.open(name) as topic:
        identity = topic.identity
        broker.delete(name)
        broker.create(name)
        broker.produce(name, numbered(10))
        with pytest.raises(SourceReplacedError, match=f"{name}.*expected id {identity.uuid}"):
            next(topic.iter_batches(0, 0, 10))


def test_a_topic_replaced_during_the_read_is_noticed(broker):
    """KA-07."""
    name = broker.create()
    broker.produce(name, numbered(20_000))
    with broker.open(name) as topic:
        batches = topic.iter_batches(0, 0, 20_000)
        next(batches)
        broker.delete(name)
        broker.create(name)
        with pytest.raises(SourceReplacedError, match=name):
            list(batches)


def test_a_missing_topic_is_named_with_its_brokers(broker):
    with (
        broker.open("test-nobody-made-this") as topic,
        pytest.raises(TopicNotFoundError, match=f"'test-nobody-made-this'.*{broker.servers}"),
    ):
        topic.partitions()


def test_boundaries_of_days_survive_a_record_stamped_2099(broker):
    """KA-13, KA-14."""
    name = broker.create(**ANY_TIME)
    stamps = [START + i * HOUR for i in range(96)]
    stamps[2], stamps[24], stamps[30] = YEAR_2099, START + 20 * HOUR, START
    broker.produce(name, [{"value": b"", "timestamp": stamp} for stamp in stamps])
    with broker.open(name) as topic:
        assert topic.offsets_at({0: START + 3 * DAY}) == {0: 2}
        found, floor = [], None
        for day in range(5):
            boundary = boundary_of(topic, START + day * DAY, floor=floor)
            floor = boundary.offset
            found.append((boundary.offset, boundary.method, boundary.leader_epoch))
    # The record stamped 20:00 on the first day came after that of midnight, and is late.
    assert [offset for offset, _, _ in found] == [0, 25, 48, 72, 96]
    assert (found[-1][1], {epoch for _, _, epoch in found}) == ("end", {0})


def test_an_empty_partition_has_its_boundary_at_its_end(broker):
    """KA-18."""
    name = broker.create()
    with broker.open(name) as topic:
        boundary = boundary_of(topic, START)
        assert list(topic.iter_batches(0, 0, 0)) == []
    assert (boundary.offset, boundary.log_start, boundary.log_end) == (0, 0, 0)


@pytest.fixture
def silent_server():
    """A server that takes connections and says nothing, as a frozen broker does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"127.0.0.1:{port}"


def test_brokers_that_do_not_answer_end_a_call_in_bounded_time(silent_server, closed_port):
    """KA-02: side by side, because each takes its time."""
    found = {}

    def ask(servers):
        with KafkaTopic({"bootstrap.servers": servers}, "flights") as topic:
            try:
                topic.partitions()
            except IngestError as error:
                found[servers] = error

    started_at = time.monotonic()
    threads = [threading.Thread(target=ask, args=[s]) for s in (silent_server, closed_port)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert time.monotonic() - started_at < 20
    for servers in (silent_server, closed_port):
        assert found[servers].outcome is Outcome.RETRY
        assert f"topic 'flights' at brokers {servers}: " in str(found[servers])
    assert "Connection refused" in str(found[closed_port])


# More than librdkafka takes in one answer unless told, less than a broker takes in one request.
LARGE_BYTES = 98 << 20


def test_a_record_as_large_as_a_broker_takes_arrives_whole_with_its_neighbours(broker):
    name = broker.create(max_message_bytes=2 * LARGE_BYTES)
    producer = broker.producer(
        message_max_bytes=2 * LARGE_BYTES, queue_buffering_max_kbytes=LARGE_BYTES >> 9
    )
    # One request each: together they would be more than a broker takes.
    for value in (b"before", b"x" * LARGE_BYTES, b"behind"):
        producer.produce(name, value, partition=0)
        assert producer.flush(30) == 0
    with broker.open(name) as topic:
        batches = list(topic.iter_batches(0, 0, 3))
    sizes = [len(value.as_buffer()) for batch in batches for value in batch.column("value")]
    assert sizes == [6, LARGE_BYTES, 6]
