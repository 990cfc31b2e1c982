"""The connections of the command line, in a file because they may have passwords.

``TRAINFEED_CONNECTIONS`` names a JSON file with the connections that Airflow has under the same
ids. A connection is an object of librdkafka settings, or a text with a place of log files::

    {"kafka_clicks": {"bootstrap.servers": "broker:9093", "security.protocol": "SASL_SSL", …},
     "hdfs_logs": "webhdfs://reader@namenode:9870/logs"}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trainfeed.errors import ConfigError

__all__ = ["read_connections"]

_MAX_BYTES: Final = 4 << 20
_EXAMPLE: Final = '{"kafka_clicks": {"bootstrap.servers": "broker:9092"}}'


def read_connections(path: Path) -> Mapping[str, str | dict[str, str]]:
    """Return id → connection: a text is a place, a mapping has a client's settings.

    Raises:
        ConfigError: The file cannot be read, or has other content. The message has no values of
            the file, which may be secrets.
    """
    try:
        found = json.loads(_read(path))
    except OSError as error:
        raise ConfigError(f"cannot read the connections in {path}: {error.strerror}") from error
    except ValueError:
        # Without the parser's error, which quotes the text around the fault.
        raise ConfigError(f"expected JSON in {path}, for instance {_EXAMPLE}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"expected {path} to hold an object, for instance {_EXAMPLE}")
    for name, connection in found.items():
        if not isinstance(connection, str) and not _is_client(connection):
            raise ConfigError(
                f"expected connection {name!r} in {path} to be a place of log files, or librdkafka"
                f" settings as texts with bootstrap.servers; for instance {_EXAMPLE}"
            )
    return found


def _read(path: Path) -> bytes:
    # Plain ``open``: a pipe is allowed, for example from a program that keeps secrets.
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"expected at most {_MAX_BYTES} bytes of connections in {path}, got more")
    return data


def _is_client(connection: Any) -> bool:
    return (
        isinstance(connection, dict)
        and "bootstrap.servers" in connection
        and all(isinstance(value, str) for value in connection.values())
    )
