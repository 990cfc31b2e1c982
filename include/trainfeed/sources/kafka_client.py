"""What the Kafka client needs: settings of librdkafka, requests for facts, errors of trainfeed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trainfeed.errors import (
    ConfigError,
    IngestError,
    OffsetOutOfRangeError,
    SourceReplacedError,
    SourceUnreachableError,
    TopicNotFoundError,
    TrainFeedError,
)
from trainfeed.sources.topic import PartitionState

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


# --- The librdkafka settings that users may give, and the fixed ones

_ALLOWED: Final = frozenset(
    {
        "bootstrap.servers",
        "broker.address.family",
        "client.id",
        "client.rack",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "ssl.ca.pem",
        "ssl.certificate.pem",
        "ssl.key.password",
        "ssl.key.pem",
    }
)
_SECRET: Final = ("sasl.password", "ssl.key.password", "ssl.key.pem")
_MECHANISMS: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_CONNECTION: Final[Mapping[str, Any]] = {
    "log_level": 0,  # every problem also comes as an error, which ends in an exception
    "socket.connection.setup.timeout.ms": 5_000,
    "socket.keepalive.enable": True,
    "socket.timeout.ms": 8_000,
}
_READING: Final[Mapping[str, Any]] = {
    # The client demands a group; it is never joined, and nothing is committed to it.
    "group.id": "trainfeed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "max.poll.interval.ms": 86_400_000,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    # The default of one second stalls a reader that empties the queue: 0.25 instead of 1.9 M
    # records/s.
    "fetch.queue.backoff.ms": 5,
    # The default is below the largest record that a broker accepts, which would never arrive.
    "receive.message.max.bytes": 1 << 30,
    "fetch.message.max.bytes": 4 << 20,
    # How long a broker waits before it answers that a partition has no more records.
    "fetch.wait.max.ms": 20,
    "queued.max.messages.kbytes": 64 << 10,
}
# For a few records in many places: records that are fetched ahead would be thrown away.
_GLANCING: Final[Mapping[str, Any]] = {
    "fetch.message.max.bytes": 128 << 10,
    "fetch.wait.max.ms": 5,
    "queued.min.messages": 1_000,
    "queued.max.messages.kbytes": 4 << 10,
}


def check_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of a connection's settings if they are allowed and complete.

    Raises:
        ConfigError: A setting is not allowed, missing, or no text. The message names the setting,
            never its value.
    """
    for key in sorted(settings):
        if key not in _ALLOWED:
            raise ConfigError(
                f"kafka setting {key!r} is not allowed; allowed are {', '.join(sorted(_ALLOWED))}"
                "; certificates and keys are given as PEM text, not as a path"
            )
        if not isinstance(settings[key], str) or not settings[key].strip():
            raise ConfigError(f"expected kafka setting {key!r} to be text that is not empty")
    if "bootstrap.servers" not in settings:
        raise ConfigError("kafka setting 'bootstrap.servers' is missing; set it to host:port")
    _check_sasl(settings)
    return dict(settings)


def _check_sasl(settings: Mapping[str, str]) -> None:
    given = [settings[key] for key in ("sasl.mechanism", "sasl.mechanisms") if key in settings]
    wanted = settings.get("security.protocol", "").lower().startswith("sasl")
    if len(given) > 1 or (wanted and not given) or not _MECHANISMS.issuperset(given):
        raise ConfigError(
            f"expected kafka setting 'sasl.mechanism' to be one of {', '.join(sorted(_MECHANISMS))}"
            f" where security.protocol is SASL, got {given}"
        )


def secrets(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values that must not appear in messages."""
    return tuple(settings[key] for key in _SECRET if key in settings)


def admin_config(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of a client for requests about topics."""
    return {"client.id": "trainfeed", **settings, **_CONNECTION}


def consumer_config(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of a client that reads records."""
    return {**admin_config(settings), **_READING}


def stamps_config(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of a client that reads a few records in many places."""
    return {**consumer_config(settings), **_GLANCING}


# --- Translates errors of the Kafka client into those of trainfeed

# Error class → names of the client's errors; names, because the client is imported only when used.
# Other errors can be retried: SourceUnreachableError if the client did not reach a broker, else
# IngestError.
_MEANING: Final[dict[type[TrainFeedError], tuple[str, ...]]] = {
    TopicNotFoundError: (
        "TOPIC_EXCEPTION",
        "UNKNOWN_TOPIC_OR_PART",
        "_UNKNOWN_PARTITION",
        "_UNKNOWN_TOPIC",
    ),
    SourceReplacedError: ("INCONSISTENT_TOPIC_ID", "UNKNOWN_TOPIC_ID"),
    OffsetOutOfRangeError: ("OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET", "_LOG_TRUNCATION"),
    ConfigError: (
        "CLUSTER_AUTHORIZATION_FAILED",
        "ILLEGAL_SASL_STATE",
        "SASL_AUTHENTICATION_FAILED",
        "SECURITY_DISABLED",
        "TOPIC_AUTHORIZATION_FAILED",
        "UNSUPPORTED_SASL_MECHANISM",
        "UNSUPPORTED_VERSION",
        "_AUTHENTICATION",
        "_INVALID_ARG",
        "_NOT_IMPLEMENTED",
        "_SSL",
        "_UNSUPPORTED_FEATURE",
    ),
}
_REMEDY: Final[dict[type[TrainFeedError], str]] = {
    TopicNotFoundError: "create the topic, or change its name in dataset.yaml",
    SourceReplacedError: "run the build again to build from the new topic",
    OffsetOutOfRangeError: "restore the records, or accept the loss with --allow-gap WHY",
    ConfigError: "change the settings of the connection, or what the broker allows its user",
    IngestError: "retry, and if it keeps failing, check the brokers",
    SourceUnreachableError: "retry, and if it keeps failing, check the brokers",
}
# The client asks for the coordinator of its group, but never joins the group, so a user needs no
# permission for it: this error is ignored.
_GROUP_DENIED: Final = "GROUP_AUTHORIZATION_FAILED"
# The client recovers from these errors by itself; only too long a silence ends a read.
_PASSING: Final = frozenset(
    {
        _GROUP_DENIED,
        "BROKER_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "LEADER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "UNKNOWN_LEADER_EPOCH",
        "_ALL_BROKERS_DOWN",
        "_RESOLVE",
        "_TIMED_OUT",
        "_TRANSPORT",
    }
)


# The partition has no leader at the moment; it gets one soon.
_LEADERLESS: Final = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
    }
)


def is_passing(error: KafkaError) -> bool:
    """Return whether the client recovers from ``error`` by itself."""
    return error.name() in _PASSING


def is_leaderless(error: KafkaError) -> bool:
    """Return whether a partition has no leader at the moment, as right after its creation."""
    return error.name() in _LEADERLESS


class ClientErrors:
    """Collects the errors that a client reports by callback, and translates errors.

    A client that cannot connect reports this only to ``collect``; the call itself just times out.
    The reason of a time-out is therefore the error that was collected last.

    Args:
        servers: The brokers' addresses, for messages.
        secrets: Texts that must not appear in messages.
    """

    def __init__(self, servers: str, secrets: tuple[str, ...]) -> None:
        self._servers = servers
        self._secrets = secrets
        self._last: KafkaError | None = None

    def collect(self, error: KafkaError) -> None:
        """Keep ``error`` as the reason of a later time-out; this is the client's callback."""
        name = error.name()
        summary = name == "_ALL_BROKERS_DOWN" and self._last is not None
        if name != _GROUP_DENIED and not summary:
            self._last = error

    def clear(self) -> None:
        """Forget the collected error, after the client got an answer."""
        self._last = None

    def to_ours(self, error: KafkaError | None, where: str) -> TrainFeedError:
        """Return the error of trainfeed for an error of the client.

        Args:
            error: The client's error; None for a time-out.
            where: Topic, and the range if there is one.
        """
        if self._last is not None and (error is None or is_passing(error)):
            error = self._last
        name = error.name() if error is not None else "_TIMED_OUT"
        said = error.str() if error is not None else "no answer in time"
        passing = error is None or is_passing(error)
        kind = _meaning().get(name, SourceUnreachableError if passing else IngestError)
        for secret in self._secrets:
            said = said.replace(secret, "***")
        return kind(
            f"{where} at brokers {self._servers}: {said} ({name}); nothing of this call was kept;"
            f" {_REMEDY[kind]}"
        )

    @contextmanager
    def map_errors(self, where: str) -> Iterator[None]:
        """Raise errors of the client as those of trainfeed.

        Args:
            where: Topic, and the range if there is one.
        """
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise self.to_ours(error.args[0], where) from error
        except TimeoutError as error:
            raise self.to_ours(None, where) from error


@cache
def _meaning() -> dict[str, type[TrainFeedError]]:
    return {name: kind for kind, names in _MEANING.items() for name in names}


# --- Requests facts about one topic from a cluster: its identity, and offsets of its partitions

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
