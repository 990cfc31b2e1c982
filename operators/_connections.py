"""Airflow connections → ``trainfeed.config``; the only place that reads them.

============== ======================= =====================================================
connection     type                    what it has
============== ======================= =====================================================
hdfs_default   webhdfs, hdfs or file   host, port, login; extra ``landing`` and ``work``; of
                                       log files also ``logs``: the path that theirs start at
cephfs_default any                     extra ``path``: the publication root, mounted here
of the spec    any                     extra: librdkafka settings, or ``recorded``: a folder
============== ======================= =====================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from operators.datasets import datasets_folder
from trainfeed.config import Environment, KafkaSettings
from trainfeed.errors import ConfigError

__all__ = ["environment_from_connections"]

_HDFS: Final = "hdfs_default"
_CEPHFS: Final = "cephfs_default"
_PORTS: Final = {"webhdfs": 9870, "hdfs": 8020}

_HDFS_EXAMPLE: Final = (
    f"airflow connections add {_HDFS} --conn-type webhdfs --conn-host namenode --conn-port 9870"
    ' --conn-login trainfeed --conn-extra \'{"landing": "/landing", "work": "/work"}\''
)
_CEPHFS_EXAMPLE: Final = (
    f"airflow connections add {_CEPHFS} --conn-type generic"
    ' --conn-extra \'{"path": "/pfs/dc/public/dataset"}\''
)
_KAFKA_EXAMPLE: Final = (
    "airflow connections add {name} --conn-type kafka"
    ' --conn-extra \'{{"bootstrap.servers": "broker:9092"}}\''
)


def environment_from_connections(kafka: Iterable[str], logs: Iterable[str] = ()) -> Environment:
    """The places that a task reads and writes.

    Args:
        kafka: Ids of the Kafka connections that the data set names.
        logs: Ids of the connections of log files that the data set names.

    Raises:
        ConfigError: A connection is missing or incomplete; names it and shows one that works.
            Values never appear in the message: they may be secrets.
    """
    hdfs = _connection(_HDFS, _HDFS_EXAMPLE)
    return Environment(
        root=_extra(_connection(_CEPHFS, _CEPHFS_EXAMPLE), "path", _CEPHFS_EXAMPLE),
        landing=_uri(hdfs, _extra(hdfs, "landing", _HDFS_EXAMPLE)),
        work=_uri(hdfs, _extra(hdfs, "work", _HDFS_EXAMPLE)),
        kafka={name: _kafka(name) for name in kafka},
        datasets=datasets_folder(),
        logs={name: _logs(_connection(name, _HDFS_EXAMPLE)) for name in logs},
    )


def _connection(name: str, example: str) -> Connection:
    try:
        connection: Connection = Connection.get(name)
    except AirflowNotFoundException as error:
        raise ConfigError(f"connection {name!r} is not defined; add it: {example}") from error
    return connection


def _extra(connection: Connection, key: str, example: str) -> str:
    value = connection.extra_dejson.get(key)
    if not isinstance(value, str) or not value.startswith("/"):
        raise ConfigError(
            f"expected connection {connection.conn_id!r} to have the extra {key!r}, an absolute"
            f" path, got none; change it: {example}"
        )
    return value


def _logs(connection: Connection) -> str:
    has_place = "logs" in connection.extra_dejson
    return _uri(connection, _extra(connection, "logs", _HDFS_EXAMPLE) if has_place else "/")


def _uri(hdfs: Connection, path: str) -> str:
    if hdfs.conn_type == "file":
        return f"file://{path}"
    if hdfs.conn_type not in _PORTS or not hdfs.host:
        raise ConfigError(
            f"expected connection {hdfs.conn_id!r} to be of type webhdfs, hdfs or file, the first"
            f" two with a host, got type {hdfs.conn_type!r}; change it: {_HDFS_EXAMPLE}"
        )
    user = f"{hdfs.login}@" if hdfs.login else ""
    return f"{hdfs.conn_type}://{user}{hdfs.host}:{hdfs.port or _PORTS[hdfs.conn_type]}{path}"


def _kafka(name: str) -> KafkaSettings:
    example = _KAFKA_EXAMPLE.format(name=name)
    extra = _connection(name, example).extra_dejson
    if "recorded" in extra:
        return KafkaSettings(recorded=str(extra["recorded"]))
    if "bootstrap.servers" not in extra:
        raise ConfigError(
            f"expected connection {name!r} to have the extra 'bootstrap.servers' or 'recorded',"
            f" got {sorted(extra)}; change it: {example}"
        )
    return KafkaSettings(client={key: _client_value(value) for key, value in extra.items()})


def _client_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
