"""Readers over ranges of Kafka topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from trainfeed.core.config import KafkaSettings
from trainfeed.errors import ConfigError, SourceReplacedError
from trainfeed.readers.blocks import Block, BlockReader, BlockSource
from trainfeed.sources import TopicIdentity, open_topic


def kafka_range(
    topic: str,
    *,
    settings: KafkaSettings | Mapping[str, str],
    ranges: Mapping[int, tuple[int, int]] | None = None,
) -> BlockReader:
    """Return a reader over records of a topic, by partition and ascending offset.

    Every pass gives the same records: the range is fixed, no consumer group is used, and a topic
    that was deleted and created again since the first pass is refused. Samples are mappings with
    the fields ``partition``, ``offset``, ``timestamp`` (milliseconds since 1970 UTC), ``key``,
    ``value`` (bytes or None) and ``headers`` (list of name and value).

    Args:
        topic: Name of the topic.
        settings: The connection; a mapping holds librdkafka settings.
        ranges: Partition → offsets ``[start, end)``; None for all records in the topic when the
            first pass starts.

    Raises:
        TopicNotFoundError: The topic does not exist. All errors are raised by a pass.
        OffsetOutOfRangeError: Records of the range were deleted.
        SourceReplacedError: The topic was created again since the first pass.
        IngestError: The source does not answer.
    """
    if not isinstance(settings, KafkaSettings):
        settings = KafkaSettings(client=settings)
    return BlockSource(_TopicPasses(topic, settings, ranges).blocks)


class _TopicPasses:
    """The state that all passes over a range share: identity of the topic, and offsets."""

    def __init__(
        self, topic: str, settings: KafkaSettings, ranges: Mapping[int, tuple[int, int]] | None
    ) -> None:
        self._topic = topic
        self._settings = settings
        # The offsets, once known, as the first entry. list.append is atomic; the first entry
        # counts.
        self._ranges = [] if ranges is None else [dict(ranges)]
        self._identity: TopicIdentity | None = None
        for partition, (start, end) in (ranges or {}).items():
            if not 0 <= start <= end:
                raise ConfigError(
                    f"expected 0 <= start <= end, got [{start}, {end}) for partition {partition}"
                )

    def blocks(self) -> Iterator[Block]:
        with open_topic(self._settings, self._topic) as topic:
            self._check_identity(topic.identity)
            if not self._ranges:
                found = {number: topic.log_range(number) for number in topic.partitions()}
                # A pass in another thread may have been faster: its entry comes first and is used
                # by all.
                self._ranges.append(found)
            for partition, (start, end) in sorted(self._ranges[0].items()):
                for batch in topic.iter_batches(partition, start, end):
                    yield _block(partition, batch)

    def _check_identity(self, found: TopicIdentity) -> None:
        if self._identity is None:
            self._identity = found
        if found != self._identity:
            raise SourceReplacedError(
                f"expected topic {self._identity.topic!r} with id {self._identity.uuid}, got one"
                f" with id {found.uuid}; it was deleted and created again: make a new reader"
            )


def _block(partition: int, batch: pa.RecordBatch) -> Block:
    headers = np.empty(batch.num_rows, object)
    # One by one: numpy would turn lists of equal lengths into a second dimension.
    for i, pairs in enumerate(batch.column("headers").to_pylist()):
        headers[i] = [(pair["key"], pair["value"]) for pair in pairs or ()]
    return {
        "partition": np.full(batch.num_rows, partition, np.int32),
        "offset": batch.column("offset").to_numpy(),
        "timestamp": batch.column("timestamp").to_numpy(),
        "key": batch.column("key").to_numpy(zero_copy_only=False),
        "value": batch.column("value").to_numpy(zero_copy_only=False),
        "headers": headers,
    }
