"""Topics of a Kafka cluster, read by explicit offset ranges with no consumer group."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.core.garbage import collector_at_rest
from trainfeed.errors import IngestError, SourceReplacedError, TopicNotFoundError
from trainfeed.sources.kafka_client import (
    ClientErrors,
    TopicAdmin,
    check_settings,
    consumer_config,
    is_passing,
    secrets,
    stamps_config,
)
from trainfeed.sources.landing import LANDING_SCHEMA
from trainfeed.sources.topic import (
    MAX_STAMP_BYTES,
    OffsetRange,
    PartitionState,
    Stamps,
    TopicIdentity,
    check_available,
    check_topic_name,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message


# --- Reads one offset range of a topic partition with a consumer that belongs to no group

MAX_RECORDS: Final = 10_000
# How long a call waits for records; the range may end with offsets without a record.
_POLL_S: Final = 0.05
_SILENCE_S: Final = 10.0


@dataclass(frozen=True)
class RangeRecords:
    """Records from one call of the client, by ascending offset; at least one.

    Attributes:
        messages: The client's message objects, without errors.
        offsets: Offsets of the messages.
    """

    messages: list[Message]
    offsets: NDArray[np.int64]

    def stamps(self) -> list[int]:
        """Return the timestamps in ms."""
        return [message.timestamp()[1] for message in self.messages]

    def to_batch(self) -> pa.RecordBatch:
        """Return the records as a batch of ``LANDING_SCHEMA``."""
        from confluent_kafka import Message

        count = len(self.messages)
        kinds_and_stamps = chain.from_iterable(map(Message.timestamp, self.messages))
        stamps = np.fromiter(kinds_and_stamps, np.int64, 2 * count).reshape(count, 2)
        columns = [
            pa.array(self.offsets),
            pa.array(stamps[:, 1]),
            pa.array(stamps[:, 0].astype(np.int8)),
            pa.array(list(map(Message.key, self.messages)), pa.binary()),
            pa.array(list(map(Message.value, self.messages)), pa.binary()),
            self._headers(),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=LANDING_SCHEMA)

    def _headers(self) -> pa.Array:
        from confluent_kafka import Message

        kind = LANDING_SCHEMA.field("headers").type
        headers = list(map(Message.headers, self.messages))
        if any(headers):
            return pa.array([pairs or [] for pairs in headers], kind)
        # The usual case, no headers at all, without a Python object per record.
        ends = pa.array(np.zeros(len(headers) + 1, np.int32))
        return pa.ListArray.from_arrays(ends, pa.array([], kind.value_type), type=kind)


def iter_records(
    consumer: Consumer, span: OffsetRange, errors: ClientErrors, *, first: int
) -> Iterator[RangeRecords]:
    """Yield the records of a range.

    The iterator ends when the position has reached the end of the range, by a record or by the
    client's event for the end of the partition: the last offset need not have a record.

    Args:
        consumer: A consumer, assigned to the start of the range.
        span: The range.
        errors: Collects the problems that the consumer reports.
        first: Most records of the first call; later calls ask for more.

    Raises:
        KafkaException: A message carries an error that the client does not recover from.
        IngestError: No record arrived for too long, or records arrived in a wrong order.
    """
    position, ask = span.start, first
    heard_at = time.monotonic()
    while position < span.end:
        # One call of the client makes thousands of objects, all of which are kept.
        with collector_at_rest():
            messages = consumer.consume(min(ask, span.end - position), _POLL_S)
        messages, reached = _sort_out(messages, errors)
        if messages:
            offsets = _ascending_offsets(messages, position, span)
            reached = max(reached, int(offsets[-1]) + 1)
            num_wanted = int(np.searchsorted(offsets, span.end))
            if num_wanted:
                yield RangeRecords(messages[:num_wanted], offsets[:num_wanted])
        if reached > position:
            position, heard_at = reached, time.monotonic()
            # The client has recovered from errors before this progress.
            errors.clear()
        elif time.monotonic() - heard_at > _SILENCE_S:
            raise errors.to_ours(None, f"{span}, silent for {_SILENCE_S:.0f} s at {position}")
        # Few records at first, for callers that need no more, then four times as many each time.
        ask = min(ask * 4, MAX_RECORDS)


def _sort_out(messages: list[Message], errors: ClientErrors) -> tuple[list[Message], int]:
    """Return the records, and the offset of an event for the end of the partition, or 0."""
    from confluent_kafka import KafkaException, Message

    if not any(map(Message.error, messages)):
        return messages, 0
    records, reached = [], 0
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
        elif error.name() == "_PARTITION_EOF":
            reached = max(reached, message.offset() or 0)
        elif is_passing(error):
            errors.collect(error)
        else:
            raise KafkaException(error)
    return records, reached


def _ascending_offsets(
    messages: list[Message], position: int, span: OffsetRange
) -> NDArray[np.int64]:
    from confluent_kafka import Message

    offsets = np.fromiter(map(Message.offset, messages), np.int64, len(messages))
    if offsets[0] < position or (offsets[1:] <= offsets[:-1]).any():
        raise IngestError(
            f"{span}: expected offsets that ascend from {position}, got {offsets[:10].tolist()}…;"
            " nothing of this range was kept; the task can be tried again"
        )
    return offsets


# --- Reads the stamps of a few records in many places of a topic


class StampsReader:
    """Reads stamps with a consumer that is kept until ``close``.

    The first request makes the client, and so does the first after a fork, which a client does not
    survive.

    Args:
        settings: Checked settings of the connection.
        errors: Collects the problems that the client reports.
    """

    def __init__(self, settings: Mapping[str, str], errors: ClientErrors) -> None:
        self._settings = settings
        self._errors = errors
        # Process id → client. A client that was inherited by a fork is kept and never used: its
        # deletion would wait for threads that do not exist in this process.
        self._clients: dict[int, Consumer] = {}

    def read(self, span: OffsetRange, max_records: int, max_bytes: int) -> Stamps:
        """Return the stamps of the first records of a range; see ``Topic.read_stamps``.

        Raises:
            KafkaException: The client does not recover.
            IngestError: No record arrived for too long.
        """
        from confluent_kafka import TopicPartition

        consumer = self._client()
        consumer.assign([TopicPartition(span.topic, span.partition, span.start)])
        try:
            return self._read(consumer, span, max_records, max_bytes)
        finally:
            consumer.unassign()

    def _read(
        self, consumer: Consumer, span: OffsetRange, max_records: int, max_bytes: int
    ) -> Stamps:
        found, num_bytes = np.empty((0, 2), np.int64), 0
        first = min(max_records, MAX_RECORDS)
        for records in iter_records(consumer, span, self._errors, first=first):
            # Bytes received up to and including each message.
            sizes = num_bytes + np.cumsum([len(message) for message in records.messages])
            # Up to and including the record that exceeds the limit.
            count = int(np.searchsorted(sizes, max_bytes)) + 1
            rows = np.stack([records.offsets, records.stamps()], axis=1)
            found = np.concatenate([found, rows[:count]])[:max_records]
            num_bytes = int(sizes[-1])
            if num_bytes >= max_bytes or len(found) == max_records:
                return Stamps(found[:, 0], found[:, 1], num_bytes, int(found[-1, 0]) + 1)
        return Stamps(found[:, 0], found[:, 1], num_bytes, span.end)

    def close(self) -> None:
        """Release this process's client."""
        consumer = self._clients.pop(os.getpid(), None)
        if consumer is not None:
            consumer.close()

    def _client(self) -> Consumer:
        from confluent_kafka import Consumer

        process = os.getpid()
        if process not in self._clients:
            config = {**stamps_config(self._settings), "error_cb": self._errors.collect}
            self._clients[process] = Consumer(config)
        return self._clients[process]


# --- A Kafka topic, read by explicit offset ranges


class KafkaTopic:
    """One topic of a Kafka cluster (2.8 or later).

    Only committed records are visible. The constructor makes no connection: clients are made when
    they are needed, after any fork. If the brokers stop answering, a call ends within 20 s.

    Args:
        settings: librdkafka settings of the connection. Allowed are ``bootstrap.servers``,
            ``security.protocol``, ``sasl.mechanism`` (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512),
            ``sasl.username``, ``sasl.password``, certificates and keys as PEM text
            (``ssl.ca.pem``, ``ssl.certificate.pem``, ``ssl.key.pem``, ``ssl.key.password``),
            ``client.id``, ``client.rack`` and ``broker.address.family``.
        topic: Name of the topic.

    Raises:
        ConfigError: A setting is missing or not allowed.
    """

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        self._settings = check_settings(settings)
        self._topic = check_topic_name(topic)
        self._admin = TopicAdmin(self._settings, topic, self._client_errors())
        # A second collector: errors of the admin client must not explain a time-out of the reader.
        self._errors = self._client_errors()
        self._stamps = StampsReader(self._settings, self._errors)

    @cached_property
    def identity(self) -> TopicIdentity:
        """The identity found at the first request; later reads are compared with it."""
        uuid, _ = self._admin.describe()
        return TopicIdentity(self._topic, uuid, self._admin.cluster())

    @cached_property
    def is_compacted(self) -> bool:
        """Whether the topic deletes superseded records, as far as the brokers tell it."""
        return "compact" in (self._admin.cleanup_policies() or ())

    def partitions(self) -> list[int]:
        """Return the numbers of the partitions, ascending; their number can grow."""
        return self._admin.describe()[1]

    def log_range(self, partition: int) -> tuple[int, int]:
        """Return log start and last stable offset."""
        self._check_partition(partition)
        return self._admin.log_range(partition)

    def states(self) -> dict[int, PartitionState]:
        """Return start and end of every partition's log.

        Raises:
            SourceReplacedError: The topic is not the one of ``identity`` any more.
        """
        planned = self.identity
        uuid, partitions = self._admin.describe()
        self._require_same(planned.uuid, uuid, f"topic {self._topic!r}")
        return self._admin.states(partitions) if partitions else {}

    def offsets_at(self, times_ms: Mapping[int, int]) -> dict[int, int | None]:
        """Return partition → first offset that the time index has at or after a time, or None.

        Transaction markers are in the index, with the time at which they were written. Offsets
        from the last stable offset on are not.
        """
        return self._admin.offsets_at(times_ms) if times_ms else {}

    def read_stamps(
        self,
        partition: int,
        start: int,
        end: int,
        *,
        max_records: int,
        max_bytes: int = MAX_STAMP_BYTES,
    ) -> Stamps:
        """Return the stamps of the first records of ``[start, end)``; see ``Topic``."""
        span = OffsetRange(self._topic, partition, start, end)
        try:
            with self._errors.map_errors(str(span)):
                return self._stamps.read(span, max_records, max_bytes)
        except IngestError:
            self._raise_cause(span)
            raise

    def iter_batches(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield every record of ``[start, end)`` by ascending offset; see ``Topic``."""
        span = OffsetRange(self._topic, partition, start, end)
        self._check(span)
        for records in self._iter_records(span, first=MAX_RECORDS):
            yield records.to_batch()
        self._check(span)

    def close(self) -> None:
        """Release the connections."""
        self._stamps.close()
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _client_errors(self) -> ClientErrors:
        return ClientErrors(self._settings["bootstrap.servers"], secrets(self._settings))

    def _check_partition(self, partition: int) -> str:
        """Return the topic's id; refuse a missing partition, about which a request would hang."""
        uuid, partitions = self._admin.describe()
        if partition not in partitions:
            raise TopicNotFoundError(
                f"topic {self._topic!r} at brokers {self._settings['bootstrap.servers']} has"
                f" partitions {partitions}, got {partition}"
            )
        return uuid

    def _check(self, span: OffsetRange) -> None:
        """Raise unless this is still the same topic and has all of ``span``."""
        planned = self.identity
        uuid = self._check_partition(span.partition)
        self._require_same(planned.uuid, uuid, str(span))
        check_available(span, *self._admin.log_range(span.partition))

    def _require_same(self, planned: str, found: str, where: str) -> None:
        if found != planned:
            raise SourceReplacedError(
                f"{where}: topic was deleted and created again: expected id {planned}, got"
                f" {found}, at brokers {self._settings['bootstrap.servers']}; nothing of this range"
                " was kept; run the build again to build from the new topic"
            )

    def _iter_records(self, span: OffsetRange, *, first: int) -> Iterator[RangeRecords]:
        errors = self._client_errors()
        consumer = self._consumer(span, errors)
        try:
            with errors.map_errors(str(span)):
                yield from iter_records(consumer, span, errors, first=first)
        except IngestError:
            self._raise_cause(span)
            raise
        finally:
            consumer.close()

    def _raise_cause(self, span: OffsetRange) -> None:
        """Find out from the cluster why a read failed: the client often only reports a time-out."""
        try:
            self._check(span)
        except IngestError as cause:
            # A plain IngestError: the cluster does not answer now either. The error of the read has
            # more about that.
            if type(cause) is not IngestError:
                raise

    def _consumer(self, span: OffsetRange, errors: ClientErrors) -> Consumer:
        from confluent_kafka import Consumer, TopicPartition

        with errors.map_errors(str(span)):
            consumer = Consumer({**consumer_config(self._settings), "error_cb": errors.collect})
            consumer.assign([TopicPartition(span.topic, span.partition, span.start)])
        return consumer
