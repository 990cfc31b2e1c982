"""The task that preprocesses and converts on a Spark cluster, its progress, and its connection."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from operators.stages import StageOperator
from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context

    from trainfeed.pipeline import Build, JsonObject, StageReport
    from trainfeed.pipeline.spark.application import SparkApplication
    from trainfeed.pipeline.spark.cluster import SparkCluster


# --- Airflow's connection of Spark → ``SparkCluster``

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
    from trainfeed.pipeline.spark.cluster import SparkCluster

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


# --- How far an application is → an XCom of its task, which the page of the run shows

logger = logging.getLogger(__name__)

_KEY: Final = "progress"

# An XCom is a request to the API server and a row of the database; the page is read every 10 s.
_PAUSE_S: Final = 5.0


class ShownProgress:
    """Called with every progress; leaves it for the page now and then.

    Args:
        task: The running task instance of Airflow.
    """

    def __init__(self, task: Any) -> None:
        self._task = task
        self._next_s = 0.0

    def __call__(self, progress: str) -> None:
        """Leave a progress, unless the last one is only seconds old."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + _PAUSE_S
        try:
            self._task.xcom_push(key=_KEY, value={"progress": progress})
        except Exception:
            # A build does not fail because a page cannot show how far it is.
            logger.warning("the progress could not be shown", exc_info=True)


# --- Landing files → shards in the run's staging folder, by one Spark application


class BuildOnSparkOperator(StageOperator):
    """Preprocess and convert all units of the plan.

    The task holds a worker slot while the application runs. When the task is ended, so is the
    application; the next attempt submits another one, which keeps the shards that were whole.
    """

    stage: ClassVar = "spark"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._application: SparkApplication | None = None
        self._progress: Callable[[str], object] = str

    def execute(self, context: Context) -> JsonObject:
        """Run the application and return its report; the page of the run shows its progress."""
        self._progress = ShownProgress(context["ti"])
        return super().execute(context)

    def run_stage(self, build: Build) -> StageReport:
        """Submit the application, and wait for its end."""
        from trainfeed.pipeline.spark.application import SparkApplication

        cluster = spark_cluster(build.spec.preprocess.connection)
        self._application = SparkApplication(build, cluster, self._progress)
        return self._application.run()

    def on_kill(self) -> None:
        """End the application."""
        if self._application is not None:
            self._application.cancel()
