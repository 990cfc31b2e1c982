"""Staged RecordIO shards → published version on CephFS, and its asset event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from urllib.parse import urlencode

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from operators._stage import StageOperator

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

    from trainfeed.build import PlanRef
    from trainfeed.config import Environment
    from trainfeed.spec import DatasetSpec

__all__ = ["RecordIOToCephFSOperator", "TrainingRunsLink"]

_EVENT_EXTRA: Final = ("generation", "manifest_sha256", "content_digest", "fingerprint", "samples")


class TrainingRunsLink(BaseOperatorLink):
    """From ``publish`` to the training runs of the same interval."""

    name = "Training runs"
    xcom_key = "training_runs_link"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address of the list of runs; made by the worker when the task has ended."""
        publish = cast("RecordIOToCephFSOperator", operator)
        base_url = str(conf.get("api", "base_url", fallback="")).rstrip("/")
        query = urlencode({"partition_key_pattern": publish.plan["interval"]})
        return f"{base_url}/dags/{publish.training_dag_id}/runs?{query}"


class RecordIOToCephFSOperator(StageOperator):
    """Publish the checked version and emit an event of the asset in ``outlets``.

    The event has the interval's name as partition key. It is emitted in any case, also when the
    version was there already: an earlier try may have died between publishing and the event.

    Args:
        training_dag_id: DAG that the event starts, or None; the task links to its runs.
    """

    stage: ClassVar = "publish"

    def __init__(self, *, training_dag_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.training_dag_id = training_dag_id
        if training_dag_id is not None:
            self.operator_extra_links = (TrainingRunsLink(),)

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish, emit the event, and return the report."""
        report = super().execute(context)
        if self.plan["verdict"] == "identical":
            report["verdict"] = "identical"
        for asset in self.outlets:
            event = context["outlet_events"][asset]
            event.add_partitions(report["interval"])
            event.extra = {key: report[key] for key in _EVENT_EXTRA}
        return report

    def run_stage(self, spec: DatasetSpec, env: Environment, ref: PlanRef) -> dict[str, Any]:
        """Publish the version."""
        from trainfeed.build.publish import publish

        return publish(spec, env, ref)
