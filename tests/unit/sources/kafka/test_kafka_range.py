"""When a read of a range ends, with a consumer that plays what brokers answer."""

from __future__ import annotations

import gc

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from trainfeed.errors import IngestError
from trainfeed.sources import LANDING_SCHEMA
from trainfeed.sources import kafka as kafka_range
from trainfeed.sources.kafka_client import ClientErrors
from trainfeed.sources.topic import OffsetRange

STAMP = (1, 1_356_998_400_000)


def record(offset, *, key=None, value=b"v", headers=None):
    return Message(
        topic="flights", partition=0, offset=offset, key=key, value=value, headers=headers,
        timestamp=STAMP,
    )  # fmt: skip


def problem(code, offset=-1001):
    return Message(topic="flights", partition=0, offset=offset, error=KafkaError(code))


def end_at(offset):
    return problem(KafkaError._PARTITION_EOF, offset)


class PlayedConsumer:
    """Answers each call with the next list; then only with silence."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def consume(self, num_messages, timeout):
        assert 0 < timeout < 1
        self.asked.append(num_messages)
        return self.answers.pop(0) if self.answers else []


@pytest.fixture
def errors():
    return ClientErrors("broker-1:9092", ())


@pytest.fixture
def read(errors, monkeypatch):
    monkeypatch.setattr(kafka_range, "_SILENCE_S", 0.0)

    def read(start, end, *answers, first=10_000):
        span = OffsetRange("flights", 0, start, end)
        found = kafka_range.iter_records(PlayedConsumer(*answers), span, errors, first=first)
        return [offset for records in found for offset in records.offsets.tolist()]

    return read


def test_a_range_ends_with_its_last_record(read):
    assert read(3, 6, [record(3), record(4)], [record(5)]) == [3, 4, 5]


def test_a_range_without_offsets_asks_for_nothing(read):
    assert read(3, 3) == []


def test_a_range_whose_last_offset_has_no_record_ends_with_the_partition(read):
    """KA-09."""
    assert read(3, 6, [record(3), end_at(6)]) == [3]
    assert read(3, 6, [record(4)], [end_at(7)]) == [4]
    assert read(3, 6, [end_at(6)]) == []


def test_a_record_behind_the_range_ends_it_and_is_not_given(read):
    """KA-11."""
    assert read(3, 6, [record(3), record(8), record(9)]) == [3]
    assert read(3, 6, [record(6)]) == []


def test_the_end_of_the_partition_before_the_end_of_the_range_is_waited_out(read):
    assert read(3, 6, [record(3), end_at(4)], [record(4), end_at(5)], [record(5)]) == [3, 4, 5]


def test_an_error_between_records_is_not_skipped(read):
    """KA-21: a batch that fails its checksum would otherwise be missing."""
    with pytest.raises(KafkaException, match="_BAD_MSG"):
        read(3, 6, [record(3), problem(KafkaError._BAD_MSG), record(5)])


def test_an_error_that_the_client_recovers_from_is_waited_out(read):
    """KA-01."""
    assert read(3, 5, [record(3), problem(KafkaError._TRANSPORT)], [record(4)]) == [3, 4]


def test_silence_ends_the_read_and_names_position_and_reason(read):
    """KA-02."""
    with pytest.raises(IngestError, match=r"offsets \[3, 6\), silent for 0 s at 4 at brokers"):
        read(3, 6, [record(3)])
    with pytest.raises(IngestError, match="_TRANSPORT"):
        read(3, 6, [problem(KafkaError._TRANSPORT)])


@pytest.mark.parametrize("offsets", [[2], [3, 3], [4, 3]])
def test_offsets_that_do_not_ascend_are_an_error(read, offsets):
    with pytest.raises(IngestError, match="expected offsets that ascend from 3"):
        read(3, 6, [record(offset) for offset in offsets])


def test_no_more_is_asked_for_than_the_range_can_hold(errors):
    consumer = PlayedConsumer([record(3)], [record(4)], [record(5)], [record(6)])
    span = OffsetRange("flights", 0, 3, 7)
    assert len(list(kafka_range.iter_records(consumer, span, errors, first=1))) == 4
    assert consumer.asked == [1, 3, 2, 1]


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_garbage_collector_rests_while_the_client_makes_records(errors, was_enabled):
    span = OffsetRange("flights", 0, 3, 6)
    states = []

    class Noting(PlayedConsumer):
        def consume(self, num_messages, timeout):
            states.append(gc.isenabled())
            if not self.answers:
                raise KafkaException(KafkaError(KafkaError._FAIL))
            return super().consume(num_messages, timeout)

    was = gc.isenabled()
    (gc.enable if was_enabled else gc.disable)()
    try:
        records = kafka_range.iter_records(Noting([record(3)]), span, errors, first=1)
        next(records)
        assert gc.isenabled() is was_enabled
        with pytest.raises(KafkaException):
            next(records)
        assert gc.isenabled() is was_enabled
    finally:
        (gc.enable if was else gc.disable)()
    assert states == [False, False]


def test_records_become_a_batch_with_everything_that_a_message_holds():
    messages = [
        record(3, key=b"k", value=b"v"),
        record(5, key=None, value=None, headers=[("a", b"1"), ("b", None)]),
    ]
    offsets = kafka_range._ascending_offsets(messages, 3, OffsetRange("flights", 0, 3, 6))
    records = kafka_range.RangeRecords(messages, offsets)
    batch = records.to_batch()
    assert batch.schema.equals(LANDING_SCHEMA)
    assert batch.to_pylist() == [
        {
            "offset": 3, "timestamp": STAMP[1], "timestamp_type": 1, "key": b"k", "value": b"v",
            "headers": [],
        },
        {
            "offset": 5, "timestamp": STAMP[1], "timestamp_type": 1, "key": None, "value": None,
            "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        },
    ]  # fmt: skip
    assert records.stamps() == [STAMP[1]] * 2


def test_records_without_headers_have_empty_lists():
    messages = [record(3), record(4)]
    offsets = kafka_range._ascending_offsets(messages, 3, OffsetRange("flights", 0, 3, 5))
    batch = kafka_range.RangeRecords(messages, offsets).to_batch()
    batch.validate(full=True)
    assert batch.column("headers").to_pylist() == [[], []]
