"""Writes the interval of a run, or what a form is about, into its note.

Airflow names the runs of backfills and assets itself, and lists them by times that are a day off
from the intervals that they build. The scheduler calls this module at the start of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.listeners import hookimpl

from operators.timetable import IntervalTimetable
from trainfeed.core.intervals import WindowRequest, resolve_interval
from trainfeed.core.printable_text import printable
from trainfeed.errors import WindowError

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun


_FAMILIES: Final = ("build.", "train.")
# DAG of a form → the fields that say what a run of it is about.
_FORMS: Final = {
    "convert": ("output",),
    "models": ("model", "version"),
    "repair": ("dataset", "interval", "generation"),
    "retention": ("dataset",),
    "retire": ("dataset", "range"),
    "tag": ("dataset", "tag"),
    "withdraw": ("dataset", "interval", "generation"),
}
_WAIVE: Final = "waive."
_MOST_CHARS: Final = 300


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - pluggy goes by the names
    """Write what the run is about into its note, unless it has one."""
    if dag_run.note is not None:
        return
    if dag_run.dag_id.startswith(_FAMILIES):
        dag_run.note = _interval_name(dag_run)
    else:
        dag_run.note = _form_target(dag_run)


def _form_target(run: DagRun) -> str | None:
    """Return what a run of a form is about, as ``flights/2013-01-02``; None if it is of no form."""
    if run.dag_id.startswith(_WAIVE):
        return _named(run, ("interval",), first=run.dag_id.removeprefix(_WAIVE))
    return _named(run, _FORMS.get(run.dag_id, ()))


def _named(run: DagRun, fields: Sequence[str], first: str = "") -> str | None:
    conf = run.conf or {}
    parts = [first, *(conf.get(field) for field in fields)]
    told = [printable(part) for part in parts if isinstance(part, str) and part]
    joint = "@" if fields[-1:] == ("tag",) else "/"
    return joint.join(told)[:_MOST_CHARS] or None


def _interval_name(run: DagRun) -> str | None:
    """Return the interval's name; None if there is none, and the first task will fail."""
    request = _request(run)
    timetable: Any = run.dag.timetable if run.dag is not None else None
    if not isinstance(timetable, IntervalTimetable):
        # A training run, whose timetable does not have the schedule of the data set.
        return request.partition_key or request.window_start
    try:
        return timetable.schedule.text_of(resolve_interval(timetable.schedule, request))
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
