"""The note of a run is the interval that it is for.

Airflow names the runs of backfills and assets by itself, and lists them by times that are a day off
from what they build. The scheduler calls this module when it starts a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow.listeners import hookimpl

from operators.timetable import IntervalTimetable
from trainfeed.errors import WindowError
from trainfeed.intervals import WindowRequest, resolve_interval

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

__all__ = ["on_dag_run_running"]

_FAMILIES: Final = ("build.", "train.")


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - pluggy goes by the names
    """Write the interval's name into the note, unless the run has a note."""
    if dag_run.note is None and dag_run.dag_id.startswith(_FAMILIES):
        dag_run.note = _interval_name(dag_run)


def _interval_name(run: DagRun) -> str | None:
    """The interval's name; None where the first task will fail because there is no interval."""
    request = _request(run)
    timetable: Any = run.dag.timetable if run.dag is not None else None
    if not isinstance(timetable, IntervalTimetable):
        # A training run: nothing but the specification knows its schedule.
        return request.partition_key or request.window_start
    try:
        return resolve_interval(timetable.schedule, request).name
    except WindowError:
        return None


def _request(run: DagRun) -> WindowRequest:
    asked = (run.conf or {}).get("window_start")
    return WindowRequest(
        window_start=asked if isinstance(asked, str) else None,
        partition_key=run.partition_key,
        data_interval_start=run.data_interval_start,
        data_interval_end=run.data_interval_end,
    )
