"""Which librdkafka settings users may give, and what is fixed for them.

Connections are edited by people who need not own the machines that use them. So settings pass an
allow-list: none of the allowed ones names a file to open, a program to run, a library to load or
a URL to fetch. A private certificate authority, and a client certificate, are given as PEM *text*
(``ssl.ca.pem``) and never as a path; public ones are known to the client. For the same reason the
SASL mechanisms are the three that need a user and a password: GSSAPI runs ``kinit``.
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
    # Demanded by the client; never joined, never committed to.
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
    # The default is less than a broker takes in one request: a large record would never arrive.
    "receive.message.max.bytes": 1 << 30,
    "fetch.message.max.bytes": 4 << 20,
    # How long a broker holds back the news that a partition has no more records.
    "fetch.wait.max.ms": 20,
    "queued.max.messages.kbytes": 64 << 10,
}
# A few records here and there: whatever is fetched ahead of them is thrown away.
_GLANCING: Final[Mapping[str, Any]] = {
    "fetch.message.max.bytes": 128 << 10,
    "fetch.wait.max.ms": 5,
    "queued.min.messages": 1_000,
    "queued.max.messages.kbytes": 4 << 10,
}


def check_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of what a connection holds, if all of it is allowed and complete.

    Raises:
        ConfigError: A setting is not allowed, missing, or no text; names it, never its value.
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
    """Return the values that may stand in no message."""
    return tuple(settings[key] for key in _SECRET if key in settings)


def admin_config(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return what a client that asks about topics is made with."""
    return {"client.id": "trainfeed", **settings, **_CONNECTION}


def consumer_config(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return what a client that reads records is made with."""
    return {**admin_config(settings), **_READING}


def stamps_config(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return what a client that looks at a few records of many places is made with."""
    return {**consumer_config(settings), **_GLANCING}
