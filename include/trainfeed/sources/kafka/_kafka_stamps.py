"""Reads the stamps of a few records in many places of a topic.

The search for a boundary reads hundreds of small blocks, and a new consumer takes tens of
milliseconds to connect. One consumer therefore serves all places.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from trainfeed.sources._topic import OffsetRange, Stamps
from trainfeed.sources.kafka._kafka_config import stamps_config
from trainfeed.sources.kafka._kafka_errors import ClientErrors
from trainfeed.sources.kafka._kafka_range import MAX_RECORDS, iter_records

if TYPE_CHECKING:
    from confluent_kafka import Consumer

__all__ = ["StampsReader"]


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
