"""What is told of runs that did not end in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from services.airflow_client._airflow_answers import DagRun, read_task_instance
from services.airflow_client._airflow_paths import quoted, run_path
from services.airflow_client._airflow_requests import AirflowRequests


def unended(
    requests: AirflowRequests,
    runs: Sequence[DagRun],
    timeout_s: float,
    parts: Callable[[], str] | None,
) -> str:
    """Return a message with the tasks and DAGs of the runs that have not ended.

    Args:
        requests: Asks for tasks and DAGs.
        runs: The runs, also those that ended.
        timeout_s: How long they were waited for.
        parts: Returns a text about the parts of Airflow, if any.
    """
    waiting = [run for run in runs if not run.ended]
    lines = [f"runs did not end within {timeout_s:g} s"]
    lines += (_run_line(requests, run) for run in waiting)
    lines += _dag_lines(requests, {run.dag_id for run in waiting})
    if parts is not None:
        lines.append(parts())
    return "\n".join(lines)


def _run_line(requests: AirflowRequests, run: DagRun) -> str:
    path = f"{run_path(run.dag_id, run.run_id)}/taskInstances"
    tasks = [read_task_instance(task) for task in requests.pages(path, "task_instances")]
    states = ", ".join(f"{task.task_id}[{task.map_index}]={task.state}" for task in tasks)
    return f"{run.dag_id} {run.run_id} is {run.state}: {states}"


def _dag_lines(requests: AirflowRequests, dag_ids: set[str]) -> Iterator[str]:
    for dag_id in sorted(dag_ids):
        dag = requests.call("GET", f"/dags/{quoted(dag_id)}")
        yield f"{dag_id}: paused {dag['is_paused']}, stale {dag['is_stale']}"
