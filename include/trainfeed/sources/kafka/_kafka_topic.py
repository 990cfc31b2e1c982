"""A Kafka topic, read by explicit offset ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from trainfeed.errors import IngestError, SourceReplacedError, TopicNotFoundError
from trainfeed.sources._topic import (
    MAX_STAMP_BYTES,
    OffsetRange,
    PartitionState,
    Stamps,
    TopicIdentity,
    check_available,
    check_topic_name,
)
from trainfeed.sources.kafka._kafka_admin import TopicAdmin
from trainfeed.sources.kafka._kafka_config import check_settings, consumer_config, secrets
from trainfeed.sources.kafka._kafka_errors import ClientErrors
from trainfeed.sources.kafka._kafka_range import MAX_RECORDS, RangeRecords, iter_records
from trainfeed.sources.kafka._kafka_stamps import StampsReader

if TYPE_CHECKING:
    from confluent_kafka import Consumer

__all__ = ["KafkaTopic"]


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
