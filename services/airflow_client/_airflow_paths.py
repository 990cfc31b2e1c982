"""Paths and times as Airflow's REST API wants them."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

from services.airflow_client._airflow_answers import DagRun


def quoted(part: str) -> str:
    """Return one part of a path with every special character escaped, ``/`` among them."""
    return quote(part, safe="")


def run_path(dag_id: str, run_id: str) -> str:
    """Return the path of a run."""
    return f"/dags/{quoted(dag_id)}/dagRuns/{quoted(run_id)}"


def question_path(run: DagRun, task_id: str) -> str:
    """Return the path of the question that a task, which is not mapped, asks a person."""
    task = f"{run_path(run.dag_id, run.run_id)}/taskInstances/{quoted(task_id)}"
    return f"{task}/-1/hitlDetails"


def utc_text(moment: datetime) -> str:
    """Return an aware time as ISO 8601 text in UTC."""
    return moment.astimezone(UTC).isoformat()
