"""Airflow's connection of Spark → ``SparkCluster``.

The connection ``spark_default`` has what Airflow's own operators for Spark read: the master as host
(``local[*]``, ``yarn``, ``spark://host``, ``k8s://https://host``) and port; the extras
``deploy-mode``, ``spark-binary``, ``queue`` (YARN) and ``namespace`` (Kubernetes). Further extras
are ``python``, the interpreter of driver and executors, and ``conf``, options of Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from trainfeed.pipeline.spark import SparkCluster

__all__ = ["spark_cluster"]

_NAME: Final = "spark_default"
_EXAMPLE: Final = (
    f"airflow connections add {_NAME} --conn-type spark --conn-host spark://master --conn-port 7077"
    ' --conn-extra \'{"spark-binary": "/opt/spark/bin/spark-submit"}\''
)
# Extra of the connection → setting of the cluster, or option of Spark.
_SETTINGS: Final = {"deploy-mode": "deploy_mode", "spark-binary": "submit", "python": "python"}
_OPTIONS: Final = {"queue": "spark.yarn.queue", "namespace": "spark.kubernetes.namespace"}


def spark_cluster() -> SparkCluster:
    """Return the cluster of the connection ``spark_default``.

    Raises:
        ConfigError: The connection is missing or wrong; the message has an example, but no values.
    """
    from trainfeed.pipeline.spark import SPARK_CONNECTION, SparkCluster

    try:
        connection = Connection.get(_NAME)
    except AirflowNotFoundException as error:
        raise ConfigError(f"connection {_NAME!r} is not defined; add it: {_EXAMPLE}") from error
    return SparkCluster.of({SPARK_CONNECTION: _settings(connection)})


def _settings(connection: Connection) -> dict[str, Any]:
    extra = connection.extra_dejson
    if unknown := extra.keys() - _SETTINGS.keys() - _OPTIONS.keys() - {"conf"}:
        raise ConfigError(
            f"expected connection {_NAME!r} to have no other extras than"
            f" {', '.join([*_SETTINGS, *_OPTIONS, 'conf'])}, got {sorted(unknown)}; nothing was"
            f" started; change it: {_EXAMPLE}"
        )
    if not connection.host:
        raise ConfigError(f"expected connection {_NAME!r} to have a host; change it: {_EXAMPLE}")
    port = f":{connection.port}" if connection.port else ""
    conf = {option: extra[name] for name, option in _OPTIONS.items() if name in extra}
    given = extra.get("conf", {})
    return {
        "master": f"{connection.host}{port}",
        **{setting: extra[name] for name, setting in _SETTINGS.items() if name in extra},
        # A value of another type is left for the check of the settings.
        "conf": {**conf, **given} if isinstance(given, dict) else given,
    }
