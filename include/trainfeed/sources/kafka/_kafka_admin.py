"""Requests facts about one topic from a cluster: its identity, and offsets of its partitions."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, NamedTuple

from trainfeed.errors import ConfigError
from trainfeed.sources._topic import PartitionState
from trainfeed.sources.kafka._kafka_config import admin_config
from trainfeed.sources.kafka._kafka_errors import ClientErrors, is_leaderless

__all__ = ["TopicAdmin"]

_REQUEST_S: Final = 8.0
# Our own deadline: a request about a missing partition is never answered, despite its time-out.
_ANSWER_S: Final = _REQUEST_S + 1.0
_LEADER_POLL_S: Final = 0.1
# The client writes ids in plain base64; Kafka and its tools use the alphabet for URLs.
_URL_ALPHABET: Final = str.maketrans("+/", "-_", "=")
_NO_UUID: Final = "A" * 22


class _Listed(NamedTuple):
    """The answer to a request for an offset."""

    offset: int
    leader_epoch: int | None


class TopicAdmin:
    """Requests facts about one topic; every request has a deadline.

    The first request makes the client, and so does the first after a fork, which a client does not
    survive.

    Args:
        settings: Checked settings of the connection.
        topic: Name of the topic.
        errors: Collects the problems that the client reports.
    """

    def __init__(self, settings: Mapping[str, str], topic: str, errors: ClientErrors) -> None:
        self._settings = settings
        self._topic = topic
        self._errors = errors
        # Process id → client. A client that was inherited by a fork is kept and never used: its
        # deletion would wait for threads that do not exist in this process.
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
                f"topic {self._topic!r} has no id, so a topic that replaces it could not be"
                " recognised; expected brokers of Kafka 2.8 or later"
            )
        return uuid, sorted(partition.id for partition in found.partitions)

    def cluster(self) -> str:
        """Return the id of the cluster."""
        answer = self._client().describe_cluster(request_timeout=_REQUEST_S)
        return str(self._wait(answer).cluster_id)

    def cleanup_policies(self) -> frozenset[str] | None:
        """Return the topic's ``cleanup.policy``; None if the brokers do not tell it to this user.

        Raises:
            ConfigError: The brokers refuse the user.
            IngestError: The brokers do not answer.
        """
        admin = _admin()
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, self._topic)
        answers = self._client().describe_configs([resource], request_timeout=_REQUEST_S)
        try:
            found = self._wait(answers[resource])
        except ConfigError:
            return None  # to read records, a user does not need to see settings
        entry = found.get("cleanup.policy")
        return None if entry is None else frozenset(str(entry.value).replace(" ", "").split(","))

    def log_range(self, partition: int) -> tuple[int, int]:
        """Return log start and last stable offset of a partition that exists."""
        spec = _admin().OffsetSpec
        return (
            self._list({partition: spec.earliest()})[partition].offset,
            self._list({partition: spec.latest()})[partition].offset,
        )

    def states(self, partitions: Collection[int]) -> dict[int, PartitionState]:
        """Return the states of existing partitions, from three requests for all of them."""
        spec = _admin().OffsetSpec
        starts = self._list(dict.fromkeys(partitions, spec.earliest()))
        # In this order: records that arrive in between then do not look like an open transaction.
        marks = self._list(dict.fromkeys(partitions, spec.latest()), sees_open=True)
        ends = self._list(dict.fromkeys(partitions, spec.latest()))
        return {
            partition: PartitionState(
                log_start=starts[partition].offset,
                log_end=end.offset,
                high_watermark=max(marks[partition].offset, end.offset),
                leader_epoch=end.leader_epoch,
            )
            for partition, end in ends.items()
        }

    def offsets_at(self, times_ms: Mapping[int, int]) -> dict[int, int | None]:
        """Return the time index's answers for existing partitions; None if it has no position."""
        spec = _admin().OffsetSpec
        found = self._list({p: spec.for_timestamp(at) for p, at in times_ms.items()})
        return {p: each.offset if each.offset >= 0 else None for p, each in found.items()}

    def close(self) -> None:
        """Release this process's client."""
        self._clients.pop(os.getpid(), None)

    def _list(self, specs: Mapping[int, Any], *, sees_open: bool = False) -> dict[int, _Listed]:
        """Request an offset of each partition; with ``sees_open``, of uncommitted records, too."""
        with self._errors.map_errors(f"topic {self._topic!r}"):
            found = self._ask(specs, sees_open=sees_open)
        return {partition: _listed(found[partition]) for partition in specs}

    def _ask(self, specs: Mapping[int, Any], *, sees_open: bool) -> dict[int, Any]:
        """Request offsets; repeat it for partitions without a leader, as new ones are at first."""
        deadline_s = time.monotonic() + _REQUEST_S
        found: dict[int, Any] = {}
        while missing := {p: spec for p, spec in specs.items() if p not in found}:
            for partition, answer in self._answers(missing, sees_open=sees_open).items():
                with _leaderless_until(deadline_s):
                    found[partition] = self._result(answer)
            if len(found) < len(specs):
                threading.Event().wait(_LEADER_POLL_S)
        return found

    def _answers(self, specs: Mapping[int, Any], *, sees_open: bool) -> dict[int, Future[Any]]:
        from confluent_kafka import IsolationLevel, TopicPartition

        level = IsolationLevel.READ_UNCOMMITTED if sees_open else IsolationLevel.READ_COMMITTED
        answers = self._client().list_offsets(
            {TopicPartition(self._topic, partition): spec for partition, spec in specs.items()},
            isolation_level=level,
            request_timeout=_REQUEST_S,
        )
        return {place.partition: answer for place, answer in answers.items()}

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


def _listed(found: Any) -> _Listed:
    epoch = found.leader_epoch
    return _Listed(int(found.offset), None if epoch is None or epoch < 0 else int(epoch))


@contextmanager
def _leaderless_until(deadline_s: float) -> Iterator[None]:
    """Ignore errors about a missing leader until a time of the monotonic clock."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        if not is_leaderless(error.args[0]) or time.monotonic() > deadline_s:
            raise


def _admin() -> Any:
    """Return the client's admin module; imported here, as parts of it have no types."""
    return import_module("confluent_kafka.admin")
