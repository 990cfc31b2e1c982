"""Writes the interval of a run into its note.

Airflow names the runs of backfills and assets itself, and lists them by times that are a day off
from the intervals that they build. The scheduler calls this module at the start of a run.
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
    """Return the interval's name; None if there is none, and the first task will fail."""
    request = _request(run)
    timetable: Any = run.dag.timetable if run.dag is not None else None
    if not isinstance(timetable, IntervalTimetable):
        # A training run, whose timetable does not have the schedule of the data set.
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
