"""The base of the operators of a build: they read the plan and call one stage."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from operators._connections import environment_from_connections
from operators._outcome import airflow_outcome
from operators.datasets import datasets_folder
from trainfeed.specification import load_spec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.config import Environment
    from trainfeed.pipeline import Build, JsonObject, PlanReport, StageReport
    from trainfeed.specification import DatasetSpec

__all__ = ["StageOperator", "UnitOperator", "open_dataset"]

ResultT = TypeVar("ResultT")


def open_dataset(
    name: str, *, trains: bool = False, transfers: bool = False, tracks: bool = False
) -> tuple[DatasetSpec, Environment]:
    """Return the specification of a data set, and the environment of its tasks.

    Args:
        name: Name of the data set.
        trains: Whether the task launches a training, so that it needs the training's cluster.
        transfers: Whether the task transfers models, so that it needs the stores of the training.
        tracks: Whether the task needs the training's tracking server.

    Raises:
        SpecError: The specification is wrong.
        ConfigError: A connection is missing or incomplete.
    """
    spec = load_spec(datasets_folder() / name)
    kind = spec.source.kind
    train = spec.train
    clusters = [train.connection] if trains and train is not None and not train.is_local else []
    stores = train.stores if transfers and train is not None else ()
    server = train.tracking.mlflow if tracks and train is not None else None
    trackers = [] if server is None else [server]
    return spec, environment_from_connections(
        set(kind.clusters), kind.file_systems, clusters, stores, trackers
    )


class StageOperator(BaseOperator):
    """One stage of a build, as one task.

    The task can run again safely: a stage looks for its result before it works.

    Args:
        dataset: Name of the data set.
        plan: The report of the task ``plan`` (its XCom).
    """

    template_fields: Sequence[str] = ("plan",)
    stage: ClassVar[str]

    def __init__(self, *, dataset: str, plan: object, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.plan = plan

    def execute(self, context: Context) -> JsonObject:
        """Run the stage and return its report: small JSON."""
        return self.built(context, self.planned(context), self.run_stage).to_json()

    def planned(self, context: Context) -> PlanReport:
        """Read the report of the task ``plan``.

        Raises:
            AirflowSkipException: There is nothing to build. This happens when a task is cleared
                that Airflow had skipped before.
        """
        from trainfeed.pipeline import SkipReport, plan_report_from_json

        found = cast("Mapping[str, object]", self.plan)
        if found.get("dry_run"):
            raise AirflowSkipException("dry run: what would be done is in the log of the task plan")
        with airflow_outcome(context):
            report = plan_report_from_json(found)
        if isinstance(report, SkipReport):
            raise AirflowSkipException(report.note)
        return report

    def built(
        self, context: Context, planned: PlanReport, stage: Callable[[Build], ResultT]
    ) -> ResultT:
        """Return the result of ``stage`` for the planned build."""
        from trainfeed.pipeline import Build
        from trainfeed.pipeline.build_attempts import build_attempt

        with airflow_outcome(context):
            build = Build(*open_dataset(self.dataset), planned.ref)
            # A published version is not built again, so there is no attempt to mark.
            with nullcontext() if planned.is_published else build_attempt(build, self.work):
                return stage(build)

    @property
    def work(self) -> str:
        """Name of the task's work on the plan, fit for a file name."""
        return self.stage

    @abstractmethod
    def run_stage(self, build: Build) -> StageReport:
        """Call the stage."""


class UnitOperator(StageOperator):
    """One unit of a stage that is mapped over the units of the plan.

    All mapped stages of a run have the same number of tasks, because all are mapped over the one
    output of ``plan``. In a stage with fewer units, the surplus tasks do nothing.

    Args:
        unit: Number of the unit, from 0.
    """

    def __init__(self, *, unit: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.unit = unit

    @property
    def work(self) -> str:
        """The stage and the number of the unit."""
        return f"{self.stage}-{self.unit}"

    def execute(self, context: Context) -> JsonObject:
        """Run the unit and return its report; the verdict is ``idle`` if there is no such unit."""
        planned = self.planned(context)
        if self.unit >= planned.tasks[self.stage]:
            return {"stage": self.stage, "unit": self.unit, "verdict": "idle", "source_reads": 0}
        return self.built(context, planned, self.run_stage).to_json()
