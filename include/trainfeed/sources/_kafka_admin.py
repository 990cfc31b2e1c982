"""Asks a cluster about one topic: which it is, what its partitions hold."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from importlib import import_module
from typing import Any, Final, NamedTuple

from trainfeed.errors import ConfigError
from trainfeed.sources._kafka_config import admin_config
from trainfeed.sources._kafka_errors import ClientErrors, is_leaderless

__all__ = ["TopicAdmin"]

_REQUEST_S: Final = 8.0
# A question about a partition that is not there is never answered, whatever its time-out says.
_ANSWER_S: Final = _REQUEST_S + 1.0
_LEADER_POLL_S: Final = 0.1
# The client writes ids in the alphabet of plain base64, Kafka and its tools in the one for URLs.
_URL_ALPHABET: Final = str.maketrans("+/", "-_", "=")
_NO_UUID: Final = "A" * 22


class _Listed(NamedTuple):
    """Answer to a question for an offset."""

    offset: int
    leader_epoch: int | None


class TopicAdmin:
    """Asks about one topic; every question has a deadline.

    The client is made by the first question, and anew after a fork, which it would not survive.

    Args:
        settings: Checked settings of the connection.
        topic: Name of the topic.
        errors: Where the client reports problems.
    """

    def __init__(self, settings: Mapping[str, str], topic: str, errors: ClientErrors) -> None:
        self._settings = settings
        self._topic = topic
        self._errors = errors
        # By process: freeing a client that was inherited would wait for threads that are gone.
        self._clients: dict[int, Any] = {}

    def describe(self) -> tuple[str, list[int]]:
        """Return the topic's id and the numbers of its partitions, ascending.

        Raises:
            TopicNotFoundError: The topic is not there.
            ConfigError: The brokers refuse the user, or are too old to give topics an id.
            IngestError: The brokers do not answer.
        """
        from confluent_kafka import TopicCollection

        topics = TopicCollection([self._topic])
        answers = self._client().describe_topics(topics, request_timeout=_REQUEST_S)
        found = self._wait(answers[self._topic])
        uuid = str(found.topic_id).translate(_URL_ALPHABET)
        if uuid == _NO_UUID:
            raise ConfigError(
                f"topic {self._topic!r} has no id, so nobody could tell when it is replaced;"
                " expected brokers of Kafka 2.8 or later"
            )
        return uuid, sorted(partition.id for partition in found.partitions)

    def cluster(self) -> str:
        """Return the id of the cluster."""
        answer = self._client().describe_cluster(request_timeout=_REQUEST_S)
        return str(self._wait(answer).cluster_id)

    def log_range(self, partition: int) -> tuple[int, int]:
        """Return log start and last stable offset of a partition that exists."""
        return (
            self._list(partition, _admin().OffsetSpec.earliest()).offset,
            self._list(partition, _admin().OffsetSpec.latest()).offset,
        )

    def leader_epoch(self, partition: int) -> int | None:
        """Return the epoch of the leader of a partition that exists."""
        return self._list(partition, _admin().OffsetSpec.latest()).leader_epoch

    def offset_at(self, partition: int, timestamp_ms: int) -> int | None:
        """Return what the time index of a partition that exists answers, or None."""
        offset = self._list(partition, _admin().OffsetSpec.for_timestamp(timestamp_ms)).offset
        return offset if offset >= 0 else None

    def close(self) -> None:
        """Release this process's client."""
        self._clients.pop(os.getpid(), None)

    def _list(self, partition: int, spec: Any) -> _Listed:
        with self._errors.map_errors(f"topic {self._topic!r}"):
            found = self._ask(partition, spec)
        epoch = found.leader_epoch
        return _Listed(int(found.offset), None if epoch is None or epoch < 0 else int(epoch))

    def _ask(self, partition: int, spec: Any) -> Any:
        """Ask for an offset, again while the partition has no leader; a new one has none yet."""
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

        deadline_s = time.monotonic() + _REQUEST_S
        while True:
            answers = self._client().list_offsets(
                {TopicPartition(self._topic, partition): spec},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=_REQUEST_S,
            )
            (answer,) = answers.values()
            try:
                return self._result(answer)
            except KafkaException as error:
                if not is_leaderless(error.args[0]) or time.monotonic() > deadline_s:
                    raise
                threading.Event().wait(_LEADER_POLL_S)

    def _wait(self, answer: Future[Any]) -> Any:
        with self._errors.map_errors(f"topic {self._topic!r}"):
            return self._result(answer)

    def _result(self, answer: Future[Any]) -> Any:
        try:
            found = answer.result(_ANSWER_S)
        finally:
            self._client().poll(0)  # delivers the reasons of a time-out
        self._errors.clear()
        return found

    def _client(self) -> Any:
        process = os.getpid()
        if process not in self._clients:
            self._clients[process] = self._connect()
        return self._clients[process]

    def _connect(self) -> Any:
        config = {**admin_config(self._settings), "error_cb": self._errors.collect}
        with self._errors.map_errors(f"topic {self._topic!r}"):
            return _admin().AdminClient(config)


def _admin() -> Any:
    """Return the client's module; parts of it have no types."""
    return import_module("confluent_kafka.admin")
