"""The REST API of an Airflow, as a user of it: DAGs, runs, tasks, logs, questions and events."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode

from services._process import ServiceError

# --- Addresses


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


# --- Answers

_ENDED: Final = frozenset({"success", "failed"})


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


def read_dag_run(run: Mapping[str, Any]) -> DagRun:
    """Return a run as the API names its parts."""
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


def read_task_instance(task: Mapping[str, Any]) -> TaskInstance:
    """Return a task instance as the API names its parts."""
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


def log_lines(line: Mapping[str, Any] | str) -> Iterator[str]:
    """Yield a line of a log, then its errors, beginning with the cause."""
    if isinstance(line, str):
        yield line
        return
    yield str(line.get("event", ""))
    for error in reversed(line.get("error_detail") or []):
        yield f"  {error['exc_type']}: {error['exc_value']}"


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


# --- Requests

_PAGE: Final = 100
_ANSWER_S: Final = 30.0


class AirflowRequestError(ServiceError):
    """The API refused a request; ``status`` is that of HTTP, 0 without an answer."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class AirflowRequests:
    """Sends requests as one user, and logs in at the first one that needs it.

    Args:
        port: Port of the API server.
        user: Name of the user.
        password: Password of the user.
    """

    def __init__(self, port: int, user: str, password: str) -> None:
        # Loaded here: the scheduler imports this module, and needs no client.
        from trainfeed.serving.server import Connections

        self._server = Connections(f"http://127.0.0.1:{port}", None, answer_seconds=_ANSWER_S)
        self._credentials = {"username": user, "password": password}
        self._token: str | None = None

    def token(self) -> str:
        """Return the token of the user for requests; fetched once."""
        if self._token is None:
            answer = self.send("POST", "/auth/token", self._credentials, {})
            self._token = str(answer["access_token"])
        return self._token

    def pages(self, path: str, key: str, **query: str) -> Iterator[dict[str, Any]]:
        """Yield the entries below ``key`` of all pages of an answer."""
        offset = 0
        while True:
            asked = urlencode({"limit": _PAGE, "offset": offset, **query})
            page = self.call("GET", f"{path}?{asked}")[key]
            yield from page
            if len(page) < _PAGE:
                return
            offset += _PAGE

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request as the user, with a path below ``/api/v2``; return the JSON."""
        headers = {"Authorization": f"Bearer {self.token()}"}
        return self.send(method, f"/api/v2{path}", body, headers)

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> Any:
        """Send a request as nobody; return the JSON of the answer, None if it is empty.

        Raises:
            AirflowRequestError: The request was refused, or nobody answered.
        """
        from trainfeed.serving.server import NoAnswerError

        known = {"content-type": "application/json", "connection": "close", **headers}
        data = b"" if body is None else json.dumps(body).encode()
        try:
            reply = self._server.ask(method, path, body=data, headers=known)
        except NoAnswerError as error:
            raise AirflowRequestError(f"{method} {path}: no answer: {error}", status=0) from error
        if reply.status >= HTTPStatus.BAD_REQUEST:
            message = f"{method} {path}: {reply.status} {reply.body.decode(errors='replace')}"
            raise AirflowRequestError(message, status=reply.status)
        return json.loads(reply.body) if reply.body else None


# --- What is said of runs that did not end in time


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


# --- The client

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
