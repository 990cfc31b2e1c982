"""Replays events to a Kafka topic, and writes down what the broker has acknowledged.

The producer is idempotent and chooses the partition itself, so records of a partition stand in the
order of the log, none twice, whatever the network does. A second replay of the same days sends what
the ledger does not have, which is nothing unless the first one was interrupted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.flights.events import NUM_PARTITIONS
from examples.flights.ledger import Ledger
from trainfeed.errors import ConfigError, ConflictError, IngestError, TopicNotFoundError
from trainfeed.sources import KafkaTopic

__all__ = ["produce"]

_QUIET: Final = {"log_level": 0}  # every problem ends in an exception of ours
_CONFIG: Final[Mapping[str, Any]] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 20,
    "compression.type": "lz4",
    "message.timeout.ms": 30_000,
}
_TOPIC_CONFIG: Final = {
    # Records are stamped 2013: a broker that keeps a week would delete them within seconds.
    "retention.ms": "-1",
    "message.timestamp.type": "CreateTime",
}
_TIMEOUT_S: Final = 60.0
_LOOK_S: Final = 0.1
_BATCH_ROWS: Final = 10_000


def produce(
    events: pa.Table, *, bootstrap_servers: str, topic: str, ledger_path: Path
) -> dict[str, Any]:
    """Send events in their order, and return when all of them are acknowledged and written down.

    Args:
        events: As ``EVENT_SCHEMA``.
        bootstrap_servers: ``host:port`` of the broker.
        topic: Made with four partitions when it is not there.
        ledger_path: The ledger's file.

    Returns:
        ``topic``, ``uuid``, ``events`` (asked for), ``sent``, ``planted`` (among those sent).

    Raises:
        IngestError: The broker cannot be reached, or did not acknowledge a record; what it did
            acknowledge is in the ledger.
        ConflictError: The ledger belongs to another topic, or does not know all of this one.
        ConfigError: The topic has another number of partitions.
    """
    if not _exists(bootstrap_servers, topic):
        _make_topic(bootstrap_servers, topic)
    with KafkaTopic({"bootstrap.servers": bootstrap_servers}, topic) as source:
        uuid = source.identity.uuid
        with closing(Ledger(ledger_path, topic, uuid)) as ledger:
            _check_topic(source, ledger, ledger_path)
            new = ledger.without_known(events)
            _Replay(bootstrap_servers, topic, ledger).send(new)
    return {
        "topic": topic,
        "uuid": uuid,
        "events": len(events),
        "sent": len(new),
        "planted": len(new) - new["planted"].null_count,
    }


def _exists(bootstrap_servers: str, topic: str) -> bool:
    with KafkaTopic({"bootstrap.servers": bootstrap_servers}, topic) as source:
        try:
            return bool(source.identity)
        except TopicNotFoundError:
            return False


def _make_topic(bootstrap_servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **_QUIET})
    wanted = NewTopic(topic, num_partitions=NUM_PARTITIONS, config=dict(_TOPIC_CONFIG))
    created = admin.create_topics([wanted], operation_timeout=_TIMEOUT_S)
    try:
        created[topic].result(_TIMEOUT_S)
    except (KafkaException, TimeoutError) as error:
        raise IngestError(
            f"topic {topic!r} could not be made on {bootstrap_servers}: {error}; nothing was sent"
        ) from error
    _await_topic(bootstrap_servers, topic)


def _await_topic(bootstrap_servers: str, topic: str) -> None:
    """Wait until the broker knows a topic that the controller has made: it hears of it later."""
    ends_s = time.monotonic() + _TIMEOUT_S
    while not _exists(bootstrap_servers, topic):
        if time.monotonic() > ends_s:
            raise IngestError(
                f"topic {topic!r} was made, but {bootstrap_servers} did not know it within"
                f" {_TIMEOUT_S:.0f} s; nothing was sent; replay again"
            )
        threading.Event().wait(_LOOK_S)


def _check_topic(source: KafkaTopic, ledger: Ledger, ledger_path: Path) -> None:
    """Refuse a topic whose content nobody can account for."""
    topic, partitions = source.identity.topic, source.partitions()
    if len(partitions) != NUM_PARTITIONS:
        raise ConfigError(
            f"expected topic {topic!r} to have {NUM_PARTITIONS} partitions, it has"
            f" {len(partitions)}; nothing was sent; choose another topic"
        )
    known = ledger.ends()
    for partition in partitions:
        _, end = source.log_range(partition)
        if end != known.get(partition, 0):
            raise ConflictError(
                f"partition {partition} of topic {topic!r} ends at offset {end}, the ledger"
                f" {ledger_path} at {known.get(partition, 0)}; nothing was sent; another"
                " program wrote there, or a replay was killed: delete topic and ledger, and replay"
                " again"
            )


class _Replay:
    """One run of the producer."""

    def __init__(self, bootstrap_servers: str, topic: str, ledger: Ledger) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, **_QUIET, **_CONFIG})
        self._topic = topic
        self._ledger = ledger
        self._acknowledged: list[tuple[int, int, Mapping[str, Any]]] = []
        self._failed: list[str] = []

    def send(self, events: pa.Table) -> None:
        """Send all events; leaves the acknowledged ones in the ledger even when it raises."""
        try:
            for batch in events.to_batches(max_chunksize=_BATCH_ROWS):
                for event in batch.to_pylist():
                    self._send_one(event)
                self._check(self._producer.flush(_TIMEOUT_S))
                self._write_down()
        finally:
            # Waiting records are dropped; sent records may arrive, so their answers are awaited.
            self._producer.purge(in_flight=False)
            self._producer.flush(_TIMEOUT_S)
            self._write_down()

    def _send_one(self, event: Mapping[str, Any]) -> None:
        self._producer.produce(
            self._topic,
            event["value"],
            event["key"],
            partition=event["partition"],
            timestamp=event["timestamp_ms"],
            on_delivery=partial(self._on_delivery, event),
        )
        self._producer.poll(0)

    def _on_delivery(
        self, event: Mapping[str, Any], error: KafkaError | None, message: Message
    ) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None:
            self._failed.append(error.str())
        elif partition is None or offset is None or offset < 0:
            # The answer to a try that was lost: written once, but nobody tells where.
            self._failed.append("acknowledged without an offset")
        else:
            self._acknowledged.append((partition, offset, event))

    def _check(self, num_unsent: int) -> None:
        if self._failed or num_unsent:
            reason = self._failed[0] if self._failed else f"no answer in {_TIMEOUT_S:.0f} s"
            raise IngestError(
                f"{len(self._failed) + num_unsent} events were not acknowledged by topic"
                f" {self._topic!r}: {reason}; the others are in the ledger and are not sent again:"
                " look at the broker, then replay once more"
            )

    def _write_down(self) -> None:
        self._ledger.add(self._acknowledged)
        self._acknowledged.clear()
