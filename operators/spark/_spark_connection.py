"""Airflow's connection of Spark → ``SparkCluster``.

The connection of ``preprocess.connection``, by default ``spark_default``, has what Airflow's own
operators for Spark read: the master as host (``local[*]``, ``yarn``, ``spark://host``,
``k8s://https://host``) and port; the extras ``deploy-mode``, ``spark-binary``, ``queue`` (YARN) and
``namespace`` (Kubernetes). Further extras are ``python``, the interpreter of driver and executors,
and ``conf``, options of Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from trainfeed.pipeline.spark import SparkCluster

__all__ = ["spark_cluster"]

_EXAMPLE: Final = (
    "airflow connections add {name} --conn-type spark --conn-host spark://master --conn-port 7077"
    ' --conn-extra \'{{"spark-binary": "/opt/spark/bin/spark-submit"}}\''
)
# Extra of the connection → setting of the cluster, or option of Spark.
_SETTINGS: Final = {"deploy-mode": "deploy_mode", "spark-binary": "submit", "python": "python"}
_OPTIONS: Final = {"queue": "spark.yarn.queue", "namespace": "spark.kubernetes.namespace"}


def spark_cluster(name: str) -> SparkCluster:
    """Return the cluster of a connection.

    Args:
        name: Id of the connection.

    Raises:
        ConfigError: The connection is missing or wrong; the message has an example, but no values.
    """
    from trainfeed.pipeline.spark import SparkCluster

    try:
        connection = Connection.get(name)
    except AirflowNotFoundException as error:
        raise ConfigError(
            f"connection {name!r}, the Spark cluster of preprocess.connection, is not defined;"
            f" nothing was started; add it: {_EXAMPLE.format(name=name)}"
        ) from error
    return SparkCluster.of({name: _settings(connection)}, name)


def _settings(connection: Connection) -> dict[str, Any]:
    example = _EXAMPLE.format(name=connection.conn_id)
    extra = connection.extra_dejson
    if unknown := extra.keys() - _SETTINGS.keys() - _OPTIONS.keys() - {"conf"}:
        raise ConfigError(
            f"expected connection {connection.conn_id!r} to have no other extras than"
            f" {', '.join([*_SETTINGS, *_OPTIONS, 'conf'])}, got {sorted(unknown)}; nothing was"
            f" started; change it: {example}"
        )
    if not connection.host:
        raise ConfigError(
            f"expected connection {connection.conn_id!r} to have a host; change it: {example}"
        )
    port = f":{connection.port}" if connection.port else ""
    conf = {option: extra[name] for name, option in _OPTIONS.items() if name in extra}
    given = extra.get("conf", {})
    return {
        "master": f"{connection.host}{port}",
        **{setting: extra[name] for name, setting in _SETTINGS.items() if name in extra},
        # A value of another type is left for the check of the settings.
        "conf": {**conf, **given} if isinstance(given, dict) else given,
    }
