"""What Airflow's REST API answers: runs, task instances and lines of logs, as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

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
