"""The links on the pages of tasks: to the published version, and to trainings.

The worker makes the addresses at the end of a task, and Airflow keeps them as XComs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class _ReportLink(BaseOperatorLink):
    """A link to the report of the task itself: the page of its XComs."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the page."""
        parts = (ti_key.dag_id, ti_key.run_id, ti_key.task_id)
        dag, run, task = (quote(part, safe="") for part in parts)
        return f"{_base_url()}/dags/{dag}/runs/{run}/tasks/{task}/xcom"


class VersionLink(_ReportLink):
    """A link of ``publish`` to its report about the version: folder, counts, digests."""

    name = "Version"
    xcom_key = "version_link"


class TrainingJobLink(_ReportLink):
    """A link of ``train`` to its report about the job: folder, log, metrics, versions."""

    name = "Training job"
    xcom_key = "training_job_link"


class ModelLink(_ReportLink):
    """From ``evaluate`` and ``promote`` to what they say of the model: version, gate, data."""

    name = "Model"
    xcom_key = "model_link"


class _Publishing(Protocol):
    """The attributes of the publishing operator that the link to training runs uses."""

    plan: Any
    training_dag_id: str | None


class TrainingRunsLink(BaseOperatorLink):
    """A link of ``publish`` to the training runs of the same interval."""

    name = "Training runs"
    xcom_key = "training_runs_link"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the list of runs."""
        publish = cast("_Publishing", operator)
        query = urlencode({"partition_key_pattern": publish.plan["interval"]})
        return f"{_base_url()}/dags/{publish.training_dag_id}/runs?{query}"


# Airflow shows only links whose classes a plugin has registered.
LINKS: Final = [ModelLink(), TrainingJobLink(), TrainingRunsLink(), VersionLink()]


def _base_url() -> str:
    return str(conf.get("api", "base_url", fallback="")).rstrip("/")
