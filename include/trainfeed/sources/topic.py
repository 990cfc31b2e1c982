"""The protocol of topics, on a broker or in a folder: partitions, ranges of offsets, stamps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.errors import ConfigError, OffsetOutOfRangeError

# Most bytes of keys and values that one request for stamps may receive.
MAX_STAMP_BYTES: Final = 16 << 20
_TOPIC_NAME: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True)
class TopicIdentity:
    """The identity of a topic, beyond its name.

    Attributes:
        topic: The name.
        uuid: Id from the creation of the topic: different after a deletion and a new creation
            with the same name. Safe as a folder name.
        cluster: Id of the cluster; ``recorded`` for recorded topics.
    """

    topic: str
    uuid: str
    cluster: str


@dataclass(frozen=True)
class OffsetRange:
    """Offsets ``[start, end)`` of one topic partition, with a readable text for messages."""

    topic: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"expected 0 <= start <= end, got [{self.start}, {self.end})")

    def __str__(self) -> str:
        return f"topic {self.topic!r} partition {self.partition} offsets [{self.start}, {self.end})"


@dataclass(frozen=True)
class PartitionState:
    """Start and end of a partition's log.

    Attributes:
        log_start: First offset that can be read.
        log_end: Last stable offset: records of open transactions, and all later records, are
            behind it.
        high_watermark: Offset behind the last record that is safe on the brokers; above
            ``log_end`` while a transaction is open.
        leader_epoch: Epoch of the partition's leader; None for recorded topics.
    """

    log_start: int
    log_end: int
    high_watermark: int
    leader_epoch: int | None


@dataclass(frozen=True)
class Stamps:
    """Offsets and timestamps of neighbouring records.

    Attributes:
        offsets: Ascending, int64 of shape (n,).
        stamps: Milliseconds since 1970 UTC, int64 of shape (n,); -1 where a record has none.
        num_bytes: Bytes of keys and values received for them.
        reached: Offset up to which the request is answered: there are no other records between
            its start and this offset.
    """

    offsets: NDArray[np.int64]
    stamps: NDArray[np.int64]
    num_bytes: int
    reached: int


class Topic(Protocol):
    """One topic, read by bounded ranges that can be read again.

    One thread uses a topic at a time; several iterators of it may be open at once. Use it as a
    context manager, or call ``close``.
    """

    @property
    def identity(self) -> TopicIdentity:
        """The identity found at the first request; later reads are compared with it.

        Raises:
            TopicNotFoundError: The topic is not there.
            IngestError: The source does not answer.
        """

    @property
    def is_compacted(self) -> bool:
        """Whether records may be gone before the log start: a later one with their key came.

        Nothing tells such a loss afterwards: offsets without a record are normal.

        Raises:
            IngestError: The source does not answer.
        """

    def partitions(self) -> list[int]:
        """Return the numbers of the partitions, ascending."""

    def log_range(self, partition: int) -> tuple[int, int]:
        """Return log start and log end, between which offsets can be read.

        The log end is the last stable offset: records of open transactions are behind it.
        """

    def states(self) -> dict[int, PartitionState]:
        """Return start and end of every partition's log, from one request for all.

        The high watermark is requested before the last stable offset, so records that arrive
        in between do not look like an open transaction.
        """

    def offsets_at(self, times_ms: Mapping[int, int]) -> dict[int, int | None]:
        """Return the time index's answers for a time of each partition, from one request.

        An answer is a hint: the first position stamped at or after the time. The record there may
        be stamped years ahead, or be invisible to readers. None means that the index has no such
        position, which does not mean that there is no such record.

        Args:
            times_ms: Partition → time in milliseconds since 1970 UTC.
        """

    def read_stamps(
        self,
        partition: int,
        start: int,
        end: int,
        *,
        max_records: int,
        max_bytes: int = MAX_STAMP_BYTES,
    ) -> Stamps:
        """Return the stamps of the first records of ``[start, end)`` that readers see.

        Args:
            partition: Number of the partition.
            start: First offset.
            end: Offset behind the last.
            max_records: Most records to return.
            max_bytes: Most bytes of keys and values; the record that exceeds them is the last.

        Raises:
            OffsetOutOfRangeError: ``start`` is below the log start.
            IngestError: The source does not answer.
        """

    def iter_batches(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield every record of ``[start, end)`` that exists, by ascending offset, and no other.

        Offsets without a record are normal: transaction markers, aborted records, compaction.
        The batches are valid only after the iterator has ended without an error, because the
        source is checked a last time at the end.

        Returns:
            Batches of ``LANDING_SCHEMA``, at least one row each; they stay valid.

        Raises:
            OffsetOutOfRangeError: Records of the range were deleted before or while it was read,
                or the log now ends before the range does.
            SourceReplacedError: The topic is not the one of ``identity`` any more.
            TopicNotFoundError: The topic or the partition is not there.
            IngestError: The source does not answer.
        """

    def close(self) -> None:
        """Release connections and files; a second call does nothing."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


def check_topic_name(topic: str) -> str:
    """Return ``topic``, which becomes part of paths, if Kafka allows the name.

    Raises:
        ConfigError: Kafka does not allow the name.
    """
    if not _TOPIC_NAME.fullmatch(topic):
        raise ConfigError(
            f"expected a topic name of 1 to 249 letters, digits, '.', '_' and '-', got {topic!r}"
        )
    return topic


def check_available(span: OffsetRange, log_start: int, log_end: int) -> None:
    """Raise unless the log has all of ``span``.

    Raises:
        OffsetOutOfRangeError: The first offsets were deleted, or the last ones are gone.
    """
    if span.start == span.end:
        return
    if span.start < log_start:
        lost = min(log_start, span.end)
        raise OffsetOutOfRangeError(
            f"{span}: expected a log start at or before {span.start}, got {log_start}: retention"
            f" deleted offsets [{span.start}, {lost}); nothing of this range was kept; restore the"
            " records, or accept the loss with --allow-gap WHY"
        )
    if span.end > log_end:
        raise OffsetOutOfRangeError(
            f"{span}: log truncated: planned end {span.end} > log end {log_end}; nothing of this"
            " range was kept; find out why the brokers lost records before you build again"
        )
