"""What every topic offers, whether a broker serves it or a folder holds it.

A topic is read by explicit offset ranges. There is no consumer group, no committed position and
no "latest": the same range gives the same records today and in a year, or an error that says why
it cannot.
"""

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

__all__ = [
    "MAX_STAMP_BYTES",
    "OffsetRange",
    "PartitionState",
    "Stamps",
    "Topic",
    "TopicIdentity",
    "check_available",
    "check_topic_name",
]

# Of keys and values that one question for stamps may bring along.
MAX_STAMP_BYTES: Final = 16 << 20
_TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True)
class TopicIdentity:
    """Which topic it is, and not only what it is called.

    Attributes:
        topic: The name.
        uuid: Id that the topic got when it was created: another one after a deletion and a
            creation of the same name. Safe as a folder name.
        cluster: Id of the cluster; ``recorded`` for recorded topics.
    """

    topic: str
    uuid: str
    cluster: str


@dataclass(frozen=True)
class OffsetRange:
    """Offsets ``[start, end)`` of one topic partition; reads well in messages."""

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
    """Where the log of a partition begins and ends.

    Attributes:
        log_start: First offset that can be read.
        log_end: Last stable offset: records of open transactions, and all behind them, lie
            behind it.
        high_watermark: Offset behind the last record that is safe on the brokers; above
            ``log_end`` while a transaction is open.
        leader_epoch: Epoch of the partition's leader; None where there is no such thing.
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
        num_bytes: Keys and values that were received for them.
        reached: There is no other record between the asked start and this offset.
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
        """Which topic this is, as it was found first; later reads are checked against it.

        Raises:
            TopicNotFoundError: The topic is not there.
            IngestError: The source does not answer.
        """

    def partitions(self) -> list[int]:
        """Return the numbers of the partitions, ascending."""

    def log_range(self, partition: int) -> tuple[int, int]:
        """Return log start and log end: the offsets that can be read are between them.

        The log end is the last stable offset, so records of open transactions lie behind it.
        """

    def states(self) -> dict[int, PartitionState]:
        """Return where the log of every partition begins and ends, all asked at once.

        The high watermark is asked before the last stable offset: records that arrive between
        the two questions do not look like an open transaction.
        """

    def offsets_at(self, times_ms: Mapping[int, int]) -> dict[int, int | None]:
        """Return what the time index answers for a time of each partition, all asked at once.

        It is a hint: the first position stamped at or after the time, which may be a record
        stamped years ahead, or one that no reader sees. None when the index has no such position,
        which does not say that there is no such record.

        Args:
            times_ms: Per partition the time in milliseconds since 1970 UTC.
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
        """Return the stamps of the first records of ``[start, end)`` that a reader sees.

        Args:
            partition: Number of the partition.
            start: First offset.
            end: Offset behind the last.
            max_records: Most records to return.
            max_bytes: Of keys and values; the record that exceeds it is the last.

        Raises:
            OffsetOutOfRangeError: ``start`` is below the log start.
            IngestError: The source does not answer.
        """

    def iter_batches(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield every record of ``[start, end)`` that exists, by ascending offset, and no other.

        Offsets without a record are normal: transaction markers, aborted records, compaction.
        What was yielded counts only once the iterator has ended without an error, because the
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
    """Return ``topic``, which becomes part of paths, if it is a name that Kafka allows.

    Raises:
        ConfigError: It is not.
    """
    if not _TOPIC_NAME.fullmatch(topic):
        raise ConfigError(
            f"expected a topic name of 1 to 249 letters, digits, '.', '_' and '-', got {topic!r}"
        )
    return topic


def check_available(span: OffsetRange, log_start: int, log_end: int) -> None:
    """Raise unless the log still holds, and already holds, all of ``span``.

    Raises:
        OffsetOutOfRangeError: Its first offsets were deleted, or its last ones are gone.
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
