"""Landing files → shards in the run's staging folder, by one Spark application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from operators._stage import StageOperator
from operators.spark._shown_progress import ShownProgress
from operators.spark._spark_connection import spark_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context

    from trainfeed.pipeline import Build, JsonObject, StageReport
    from trainfeed.pipeline.spark import SparkApplication

__all__ = ["BuildOnSparkOperator"]


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
        from trainfeed.pipeline.spark import SparkApplication

        cluster = spark_cluster(build.spec.preprocess.connection)
        self._application = SparkApplication(build, cluster, self._progress)
        return self._application.run()

    def on_kill(self) -> None:
        """End the application."""
        if self._application is not None:
            self._application.cancel()
