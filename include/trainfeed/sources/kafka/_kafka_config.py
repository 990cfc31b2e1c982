"""The librdkafka settings that users may give, and the fixed ones.

People who edit connections need not own the machines that use them. Settings therefore pass an
allow-list, and no allowed setting names a file to open, a program to run, a library to load or a
URL to fetch. A private certificate authority and a client certificate are given as PEM *text*
(``ssl.ca.pem``), never as a path; the client knows public authorities. For the same reason, only
the three SASL mechanisms with user and password are allowed: GSSAPI runs ``kinit``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainfeed.errors import ConfigError

__all__ = ["admin_config", "check_settings", "consumer_config", "secrets", "stamps_config"]

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
