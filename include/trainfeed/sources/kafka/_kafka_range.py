"""Reads one offset range of a topic partition with a consumer that belongs to no group."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.errors import IngestError
from trainfeed.sources._topic import OffsetRange
from trainfeed.sources.kafka._kafka_errors import ClientErrors, is_passing
from trainfeed.sources.landing import LANDING_SCHEMA

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

__all__ = ["MAX_RECORDS", "RangeRecords", "iter_records"]

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
        with _uncollected():
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


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from running in the block.

    One call of the client makes thousands of objects, all of which are kept. Otherwise the
    collector walks through them once for every 700 of them: a fifth of the time of a landing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


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
