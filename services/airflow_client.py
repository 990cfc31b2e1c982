"""A client of Airflow's REST API, for tests and demos."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote, urlencode

from services._process import ServiceError

__all__ = ["AirflowClient", "AirflowRequestError", "DagRun", "TaskInstance"]

_PAGE = 100
_POLL_S = 0.5
_ENDED = frozenset({"success", "failed"})


class AirflowRequestError(ServiceError):
    """The API refused a request; ``status`` is that of HTTP, 0 without an answer."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class DagRun:
    """A run of a DAG at the time of the request. Times are aware UTC."""

    dag_id: str
    run_id: str
    state: str
    run_type: str
    logical_date: datetime | None
    data_interval: tuple[datetime, datetime] | None
    queued_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    partition_key: str | None
    conf: Mapping[str, Any]
    note: str | None

    @property
    def ended(self) -> bool:
        """Whether the run has succeeded or failed."""
        return self.state in _ENDED


@dataclass(frozen=True)
class TaskInstance:
    """A task of a run; ``map_index`` is -1 for an unmapped task. Times are aware UTC."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    scheduled_at: datetime | None
    queued_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None


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
        self._port = port
        self._credentials = {"username": user, "password": password}
        self._token: str | None = None
        self._parts = parts

    def token(self) -> str:
        """Return the token of the user for requests; fetched once."""
        if self._token is None:
            answer = self._send("POST", "/auth/token", self._credentials, {})
            self._token = str(answer["access_token"])
        return self._token

    def health(self) -> dict[str, Any]:
        """Return the reported state of the parts, by name; needs no login."""
        return dict(self._send("GET", "/api/v2/monitor/health", None, {}))

    def warm_up(self) -> None:
        """Send the first request to the API of tasks, which then builds its app; takes 3 s."""
        self._send("GET", "/execution/health", None, {})

    def dags(self) -> dict[str, bool]:
        """Return known DAG → whether it is paused."""
        return {dag["dag_id"]: dag["is_paused"] for dag in self._pages("/dags", "dags")}

    def import_errors(self) -> dict[str, str]:
        """Return file → traceback, for DAG files that could not be imported."""
        errors = self._pages("/importErrors", "import_errors")
        return {error["filename"]: error["stack_trace"] for error in errors}

    def pools(self) -> dict[str, int]:
        """Return pool → slots."""
        return {pool["name"]: pool["slots"] for pool in self._pages("/pools", "pools")}

    def occupied(self, pool: str = "default_pool") -> int:
        """Return the number of slots of a pool that tasks hold."""
        return int(self._call("GET", f"/pools/{_quoted(pool)}")["occupied_slots"])

    def unpause(self, dag_id: str) -> None:
        """Unpause a DAG."""
        self._call("PATCH", f"/dags/{_quoted(dag_id)}", {"is_paused": False})

    def pause(self, dag_id: str) -> None:
        """Pause a DAG: no further task of it starts."""
        self._call("PATCH", f"/dags/{_quoted(dag_id)}", {"is_paused": True})

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
            body |= {"data_interval_start": _text(start), "data_interval_end": _text(end)}
            logical_date = logical_date or start
        body["logical_date"] = None if logical_date is None else _text(logical_date)
        return _dag_run(self._call("POST", f"/dags/{_quoted(dag_id)}/dagRuns", body))

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
            "from_date": _text(first),
            "to_date": _text(last),
            "max_active_runs": max_active_runs,
            "reprocess_behavior": reprocess,
            **({} if conf is None else {"dag_run_conf": dict(conf)}),
        }
        return int(self._call("POST", "/backfills", body)["id"])

    def has_active_backfill(self, dag_id: str) -> bool:
        """Return whether the DAG refuses another backfill; so up to 30 s after the last run."""
        found = self._pages("/backfills", "backfills", dag_id=dag_id)
        return any(each["completed_at"] is None for each in found)

    def dag_runs(self, dag_id: str) -> list[DagRun]:
        """Return all runs of a DAG, oldest first."""
        path = f"/dags/{_quoted(dag_id)}/dagRuns"
        return [_dag_run(run) for run in self._pages(path, "dag_runs", order_by="id")]

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
                raise ServiceError(self._unended(found, timeout_s))
            threading.Event().wait(_POLL_S)

    def task_instances(self, dag_id: str, run_id: str) -> list[TaskInstance]:
        """Return the tasks of a run, with one entry for each index of a mapped task."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances"
        return [_task_instance(task) for task in self._pages(path, "task_instances")]

    def xcom(
        self, run: DagRun, task_id: str, map_index: int = -1, *, key: str = "return_value"
    ) -> Any:
        """Return an XCom of a task: its result, or that of another key."""
        path = f"{_run_path(run.dag_id, run.run_id)}/taskInstances/{_quoted(task_id)}"
        query = urlencode({"map_index": map_index, "deserialize": "true"})
        return self._call("GET", f"{path}/xcomEntries/{_quoted(key)}?{query}")["value"]

    def log(self, dag_id: str, run_id: str, task: TaskInstance) -> str:
        """Return the log of a task's last try, with errors and their reasons."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{_quoted(task.task_id)}"
        query = urlencode({"map_index": task.map_index, "full_content": "true"})
        lines = self._call("GET", f"{path}/logs/{task.try_number}?{query}")["content"]
        return "\n".join(part for line in lines for part in _log_lines(line))

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
        cleared = self._call("POST", f"/dags/{_quoted(dag_id)}/clearTaskInstances", body)
        return int(cleared["total_entries"])

    def question(self, run: DagRun, task_id: str) -> dict[str, Any]:
        """Return the question of a task to a person, with ``subject``, ``body`` and ``options``."""
        return dict(self._call("GET", _question_path(run, task_id)))

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
        self._call("PATCH", _question_path(run, task_id), answer)

    def asset_events(self, dag_id: str | None = None) -> list[dict[str, Any]]:
        """Return events of assets as JSON, oldest first.

        Args:
            dag_id: The DAG whose tasks made the events; None for all.
        """
        query = {"order_by": "timestamp"} | ({} if dag_id is None else {"source_dag_id": dag_id})
        return list(self._pages("/assets/events", "asset_events", **query))

    def _unended(self, runs: Sequence[DagRun], timeout_s: float) -> str:
        lines = [f"runs did not end within {timeout_s:g} s"]
        for run in runs:
            if not run.ended:
                tasks = self.task_instances(run.dag_id, run.run_id)
                at = [f"{task.task_id}[{task.map_index}]={task.state}" for task in tasks]
                lines.append(f"{run.dag_id} {run.run_id} is {run.state}: {', '.join(at)}")
        for dag_id in sorted({run.dag_id for run in runs}):
            dag = self._call("GET", f"/dags/{_quoted(dag_id)}")
            lines.append(f"{dag_id}: paused {dag['is_paused']}, stale {dag['is_stale']}")
        if self._parts is not None:
            lines.append(self._parts())
        return "\n".join(lines)

    def _pages(self, path: str, key: str, **query: str) -> Iterator[dict[str, Any]]:
        offset = 0
        while True:
            asked = urlencode({"limit": _PAGE, "offset": offset, **query})
            page = self._call("GET", f"{path}?{asked}")[key]
            yield from page
            if len(page) < _PAGE:
                return
            offset += _PAGE

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token()}"}
        return self._send(method, f"/api/v2{path}", body, headers)

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> Any:
        server = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            text = None if body is None else json.dumps(body)
            server.request(method, path, text, {"Content-Type": "application/json", **headers})
            answer = server.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise AirflowRequestError(f"{method} {path}: no answer: {error}", status=0) from error
        finally:
            server.close()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            message = f"{method} {path}: {answer.status} {said.decode(errors='replace')}"
            raise AirflowRequestError(message, status=answer.status)
        return json.loads(said) if said else None


def _dag_run(run: Mapping[str, Any]) -> DagRun:
    start, end = _time(run["data_interval_start"]), _time(run["data_interval_end"])
    return DagRun(
        dag_id=run["dag_id"],
        run_id=run["dag_run_id"],
        state=run["state"],
        run_type=run["run_type"],
        logical_date=_time(run["logical_date"]),
        data_interval=None if start is None or end is None else (start, end),
        queued_at=_time(run["queued_at"]),
        started_at=_time(run["start_date"]),
        ended_at=_time(run["end_date"]),
        partition_key=run["partition_key"],
        conf=run["conf"] or {},
        note=run["note"],
    )


def _task_instance(task: Mapping[str, Any]) -> TaskInstance:
    return TaskInstance(
        task_id=task["task_id"],
        map_index=task["map_index"],
        state=task["state"],
        try_number=task["try_number"],
        scheduled_at=_time(task["scheduled_when"]),
        queued_at=_time(task["queued_when"]),
        started_at=_time(task["start_date"]),
        ended_at=_time(task["end_date"]),
    )


def _log_lines(line: Mapping[str, Any] | str) -> Iterator[str]:
    """Yield a line of a log, then its errors, beginning with the cause."""
    if isinstance(line, str):
        yield line
        return
    yield str(line.get("event", ""))
    for error in reversed(line.get("error_detail") or []):
        yield f"  {error['exc_type']}: {error['exc_value']}"


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/dags/{_quoted(dag_id)}/dagRuns/{_quoted(run_id)}"


def _question_path(run: DagRun, task_id: str) -> str:
    return f"{_run_path(run.dag_id, run.run_id)}/taskInstances/{_quoted(task_id)}/-1/hitlDetails"


def _quoted(part: str) -> str:
    return quote(part, safe="")


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
