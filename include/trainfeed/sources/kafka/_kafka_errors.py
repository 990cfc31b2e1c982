"""Translates errors of the Kafka client into those of trainfeed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

from trainfeed.errors import (
    ConfigError,
    IngestError,
    OffsetOutOfRangeError,
    SourceReplacedError,
    SourceUnreachableError,
    TopicNotFoundError,
    TrainFeedError,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

__all__ = ["ClientErrors", "is_leaderless", "is_passing"]

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
