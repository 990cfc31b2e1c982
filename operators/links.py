"""Where the pages of a task lead to: what it published, what it started, what it trained.

The worker makes the addresses when the task has ended, and Airflow keeps them as XComs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

__all__ = ["LINKS", "ModelLink", "TrainingJobLink", "TrainingRunsLink", "VersionLink"]


class _ReportLink(BaseOperatorLink):
    """To the report of the task itself: the page of its XComs."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address of the page."""
        parts = (ti_key.dag_id, ti_key.run_id, ti_key.task_id)
        dag, run, task = (quote(part, safe="") for part in parts)
        return f"{_base_url()}/dags/{dag}/runs/{run}/tasks/{task}/xcom"


class VersionLink(_ReportLink):
    """From ``publish`` to what it says of the version: folder, counts, digests."""

    name = "Version"
    xcom_key = "version_link"


class TrainingJobLink(_ReportLink):
    """From ``train`` to what it says of the job: folder, log, metrics, versions that it read."""

    name = "Training job"
    xcom_key = "training_job_link"


class ModelLink(_ReportLink):
    """From ``evaluate`` and ``promote`` to what they say of the model: version, gate, data."""

    name = "Model"
    xcom_key = "model_link"


class _Publishing(Protocol):
    """What the link to training runs reads of the operator that publishes."""

    plan: Any
    training_dag_id: str | None


class TrainingRunsLink(BaseOperatorLink):
    """From ``publish`` to the training runs of the same interval."""

    name = "Training runs"
    xcom_key = "training_runs_link"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address of the list of runs."""
        publish = cast("_Publishing", operator)
        query = urlencode({"partition_key_pattern": publish.plan["interval"]})
        return f"{_base_url()}/dags/{publish.training_dag_id}/runs?{query}"


# Airflow shows a link only when a plugin has registered its class.
LINKS: Final = [ModelLink(), TrainingJobLink(), TrainingRunsLink(), VersionLink()]


def _base_url() -> str:
    return str(conf.get("api", "base_url", fallback="")).rstrip("/")
