"""A user of Airflow's REST API: DAGs, runs, tasks, questions and assets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal
from urllib.parse import urlencode

from services._process import ServiceError
from services.airflow_client._airflow_answers import (
    DagRun,
    TaskInstance,
    log_lines,
    read_dag_run,
    read_task_instance,
)
from services.airflow_client._airflow_paths import question_path, quoted, run_path, utc_text
from services.airflow_client._airflow_requests import AirflowRequests
from services.airflow_client._unended import unended

_POLL_S: Final = 0.5


class AirflowClient:
    """A user of the REST API of an Airflow on the loopback; it logs in at the first request.

    Args:
        port: Port of the API server.
        user: Name of the user.
        password: Password of the user.
        parts: Returns a text about the state of the parts, for runs that do not end in time.
    """

    def __init__(
        self, port: int, user: str, password: str, parts: Callable[[], str] | None = None
    ) -> None:
        self._requests = AirflowRequests(port, user, password)
        self._parts = parts

    def token(self) -> str:
        """Return the token of the user for requests; fetched once."""
        return self._requests.token()

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request that has no method here, with a path below ``/api/v2``."""
        return self._requests.call(method, path, body)

    def health(self) -> dict[str, Any]:
        """Return the reported state of the parts, by name; needs no login."""
        return dict(self._requests.send("GET", "/api/v2/monitor/health", None, {}))

    def warm_up(self) -> None:
        """Send the first request to the API of tasks, which then builds its app; takes 3 s."""
        self._requests.send("GET", "/execution/health", None, {})

    def dags(self) -> dict[str, bool]:
        """Return known DAG → whether it is paused."""
        return {dag["dag_id"]: dag["is_paused"] for dag in self._requests.pages("/dags", "dags")}

    def import_errors(self) -> dict[str, str]:
        """Return file → traceback, for DAG files that could not be imported."""
        errors = self._requests.pages("/importErrors", "import_errors")
        return {error["filename"]: error["stack_trace"] for error in errors}

    def pools(self) -> dict[str, int]:
        """Return pool → slots."""
        return {pool["name"]: pool["slots"] for pool in self._requests.pages("/pools", "pools")}

    def occupied(self, pool: str = "default_pool") -> int:
        """Return the number of slots of a pool that tasks hold."""
        return int(self._requests.call("GET", f"/pools/{quoted(pool)}")["occupied_slots"])

    def unpause(self, dag_id: str) -> None:
        """Unpause a DAG."""
        self._requests.call("PATCH", f"/dags/{quoted(dag_id)}", {"is_paused": False})

    def pause(self, dag_id: str) -> None:
        """Pause a DAG: no further task of it starts."""
        self._requests.call("PATCH", f"/dags/{quoted(dag_id)}", {"is_paused": True})

    def trigger(
        self,
        dag_id: str,
        conf: Mapping[str, Any] | None = None,
        *,
        logical_date: datetime | None = None,
        data_interval: tuple[datetime, datetime] | None = None,
        partition_key: str | None = None,
        note: str | None = None,
    ) -> DagRun:
        """Make a run of the DAG.

        Args:
            dag_id: The DAG; while it is paused the run waits.
            conf: Parameters of the run.
            logical_date: Logical date, or None for a run without one.
            data_interval: ``[start, end)``; the start is the default of the logical date.
            partition_key: Partition key, for a partitioned DAG.
            note: Note of the run.
        """
        body: dict[str, Any] = {
            "conf": dict(conf or {}),
            "partition_key": partition_key,
            "note": note,
        }
        if data_interval is not None:
            start, end = data_interval
            body |= {"data_interval_start": utc_text(start), "data_interval_end": utc_text(end)}
            logical_date = logical_date or start
        body["logical_date"] = None if logical_date is None else utc_text(logical_date)
        return read_dag_run(self._requests.call("POST", f"/dags/{quoted(dag_id)}/dagRuns", body))

    def backfill(
        self,
        dag_id: str,
        first: datetime,
        last: datetime,
        *,
        max_active_runs: int = 10,
        reprocess: Literal["none", "failed", "completed"] = "none",
        conf: Mapping[str, object] | None = None,
    ) -> int:
        """Make the runs with logical dates in ``[first, last]``; return the backfill's id.

        Args:
            dag_id: The DAG; it has no other active backfill.
            first: First logical date.
            last: Last logical date, not in the future.
            max_active_runs: Number of runs at once, in place of the setting of the DAG.
            reprocess: Existing runs that run again: none, failed ones, all completed ones.
            conf: Parameters of every run, if any.
        """
        body = {
            "dag_id": dag_id,
            "from_date": utc_text(first),
            "to_date": utc_text(last),
            "max_active_runs": max_active_runs,
            "reprocess_behavior": reprocess,
            **({} if conf is None else {"dag_run_conf": dict(conf)}),
        }
        return int(self._requests.call("POST", "/backfills", body)["id"])

    def has_active_backfill(self, dag_id: str) -> bool:
        """Return whether the DAG refuses another backfill; so up to 30 s after the last run."""
        found = self._requests.pages("/backfills", "backfills", dag_id=dag_id)
        return any(each["completed_at"] is None for each in found)

    def dag_runs(self, dag_id: str) -> list[DagRun]:
        """Return all runs of a DAG, oldest first."""
        path = f"/dags/{quoted(dag_id)}/dagRuns"
        return [read_dag_run(run) for run in self._requests.pages(path, "dag_runs", order_by="id")]

    def wait_for(
        self,
        runs: Iterable[DagRun],
        timeout_s: float,
        on_progress: Callable[[Sequence[DagRun]], None] | None = None,
    ) -> list[DagRun]:
        """Wait until all ``runs`` have succeeded or failed; return their final state.

        Args:
            runs: The runs, at least one.
            timeout_s: Longest wait.
            on_progress: Called twice a second with the present state of the runs.

        Raises:
            ServiceError: Some runs did not end in time; the message has their tasks.
        """
        wanted = {(run.dag_id, run.run_id) for run in runs}
        deadline_s = time.monotonic() + timeout_s
        while True:
            every = [run for dag_id in {d for d, _ in wanted} for run in self.dag_runs(dag_id)]
            found = [run for run in every if (run.dag_id, run.run_id) in wanted]
            if on_progress is not None:
                on_progress(found)
            if len(found) == len(wanted) and all(run.ended for run in found):
                return found
            if time.monotonic() > deadline_s:
                raise ServiceError(unended(self._requests, found, timeout_s, self._parts))
            threading.Event().wait(_POLL_S)

    def task_instances(self, dag_id: str, run_id: str) -> list[TaskInstance]:
        """Return the tasks of a run, with one entry for each index of a mapped task."""
        path = f"{run_path(dag_id, run_id)}/taskInstances"
        return [read_task_instance(task) for task in self._requests.pages(path, "task_instances")]

    def xcom(
        self, run: DagRun, task_id: str, map_index: int = -1, *, key: str = "return_value"
    ) -> Any:
        """Return an XCom of a task: its result, or that of another key."""
        path = f"{run_path(run.dag_id, run.run_id)}/taskInstances/{quoted(task_id)}"
        query = urlencode({"map_index": map_index, "deserialize": "true"})
        return self._requests.call("GET", f"{path}/xcomEntries/{quoted(key)}?{query}")["value"]

    def log(self, dag_id: str, run_id: str, task: TaskInstance) -> str:
        """Return the log of a task's last try, with errors and their reasons."""
        path = f"{run_path(dag_id, run_id)}/taskInstances/{quoted(task.task_id)}"
        query = urlencode({"map_index": task.map_index, "full_content": "true"})
        lines = self._requests.call("GET", f"{path}/logs/{task.try_number}?{query}")["content"]
        return "\n".join(part for line in lines for part in log_lines(line))

    def clear(
        self, dag_id: str, run_id: str, *, task_ids: Sequence[str] = (), only_failed: bool = False
    ) -> int:
        """Clear tasks of a run; return their number.

        Args:
            dag_id: The DAG.
            run_id: The run.
            task_ids: The tasks to clear; all if empty.
            only_failed: Whether to leave out tasks that succeeded.
        """
        body: dict[str, Any] = {"dag_run_id": run_id, "only_failed": only_failed, "dry_run": False}
        if task_ids:
            body["task_ids"] = list(task_ids)
        cleared = self._requests.call("POST", f"/dags/{quoted(dag_id)}/clearTaskInstances", body)
        return int(cleared["total_entries"])

    def question(self, run: DagRun, task_id: str) -> dict[str, Any]:
        """Return the question of a task to a person, with ``subject``, ``body`` and ``options``."""
        return dict(self._requests.call("GET", question_path(run, task_id)))

    def answer(
        self, run: DagRun, task_id: str, option: str, form: Mapping[str, Any] | None = None
    ) -> None:
        """Answer the question of a task, as a person does on its page.

        Args:
            run: The run.
            task_id: The task, which waits for the answer.
            option: One of the options of the question, such as ``Approve``.
            form: Values of the form below the question.
        """
        answer = {"chosen_options": [option], "params_input": dict(form or {})}
        self._requests.call("PATCH", question_path(run, task_id), answer)

    def asset_events(self, dag_id: str | None = None) -> list[dict[str, Any]]:
        """Return events of assets as JSON, oldest first.

        Args:
            dag_id: The DAG whose tasks made the events; None for all.
        """
        query = {"order_by": "timestamp"} | ({} if dag_id is None else {"source_dag_id": dag_id})
        return list(self._requests.pages("/assets/events", "asset_events", **query))
