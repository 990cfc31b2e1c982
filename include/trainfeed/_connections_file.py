"""The connections of the command line: a file, because settings of clusters hold passwords.

``TRAINFEED_CONNECTIONS`` names a JSON file. What Airflow keeps as connections stands there by the
same ids: librdkafka settings (an object of texts) or a place of log files (a text)::

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
    """Return connections by id: a text is a place, an object has a client's settings.

    Raises:
        ConfigError: It cannot be read, or is something else. Values never appear in the message:
            they may be secrets.
    """
    try:
        found = json.loads(_read(path))
    except OSError as error:
        raise ConfigError(f"cannot read the connections in {path}: {error.strerror}") from error
    except ValueError:
        # The parser's error would quote the text around the fault.
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
    # A pipe is welcome, as from a program that keeps secrets.
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
