"""What the operators of a build share: the plan they work on, and one call of one stage."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from operators._connections import environment_from_connections
from operators._outcome import airflow_outcome
from operators.datasets import datasets_folder
from trainfeed.specification import load_spec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.config import Environment
    from trainfeed.pipeline import PlanRef
    from trainfeed.specification import DatasetSpec

__all__ = ["StageOperator", "UnitOperator", "open_dataset"]


def open_dataset(name: str) -> tuple[DatasetSpec, Environment]:
    """The specification of a data set, and the places that its tasks read and write.

    Raises:
        SpecError: The specification is wrong.
        ConfigError: A connection is missing or incomplete.
    """
    spec = load_spec(datasets_folder() / name)
    kind = spec.source.kind
    return spec, environment_from_connections(set(kind.clusters), kind.file_systems)


def _skip_unplanned(plan: Mapping[str, Any]) -> None:
    """Skip a task with nothing to build: when one is cleared, Airflow runs what it had skipped."""
    if plan.get("dry_run"):
        raise AirflowSkipException("dry run: what would be done is in the log of the task plan")
    if plan.get("verdict") == "skipped":
        raise AirflowSkipException(plan["note"])


class StageOperator(BaseOperator):
    """One stage of a build, as one task.

    Running it again is safe: a stage looks for its own result before it works.

    Args:
        dataset: Name of the data set.
        plan: What the task ``plan`` found (its XCom).
    """

    template_fields: Sequence[str] = ("plan",)
    stage: ClassVar[str]

    def __init__(self, *, dataset: str, plan: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.plan = plan

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the stage and return its report: small JSON."""
        from trainfeed.pipeline import PlanRef
        from trainfeed.pipeline.build_attempts import build_attempt

        _skip_unplanned(self.plan)
        with airflow_outcome(context):
            spec, env = open_dataset(self.dataset)
            ref = PlanRef.from_json(self.plan)
            # What is published already is not made, and needs no place to work.
            is_made = self.plan.get("verdict") != "identical"
            with build_attempt(spec, env, ref, self.work) if is_made else nullcontext():
                return self.run_stage(spec, env, ref)

    @property
    def work(self) -> str:
        """What the task does of the plan, as it may be in a file name."""
        return self.stage

    @abstractmethod
    def run_stage(self, spec: DatasetSpec, env: Environment, ref: PlanRef) -> dict[str, Any]:
        """Call the stage."""


class UnitOperator(StageOperator):
    """One unit of a stage that is mapped over the units of the plan.

    All mapped stages of a run have the same number of tasks, because Airflow knows one length
    per task to map over. A stage with fewer units leaves the surplus tasks nothing to do.

    Args:
        unit: Number of the unit, from 0.
    """

    def __init__(self, *, unit: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.unit = unit

    @property
    def work(self) -> str:
        """The stage, and which unit of it."""
        return f"{self.stage}-{self.unit}"

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the unit and return its report, or say that there is no such unit."""
        _skip_unplanned(self.plan)
        if self.unit >= len(self.plan[self.stage]):
            return {"stage": self.stage, "unit": self.unit, "verdict": "idle", "source_reads": 0}
        return super().execute(context)
