"""The parameter ``training`` of a build: whether a training of the run's own interval starts.

A backfill of 300 days need not start 300 trainings: with ``last`` only the newest interval that is
being built starts one. A backfill of Airflow creates all its runs before the first one starts, so a
run sees the runs of later intervals that are active; the marks tell about those that have ended.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.dataset import TrainingMarks
    from trainfeed.intervals import Interval
    from trainfeed.specification import DatasetSpec

__all__ = ["why_declined"]

logger = logging.getLogger(__name__)

_ACTIVE: Final = ["queued", "running"]
# Dates per request: they are part of its URL, whose length is limited.
_DATES: Final = 100


def why_declined(
    spec: DatasetSpec, marks: TrainingMarks, interval: str, context: Context
) -> str | None:
    """Return the reason why no training of the run's interval starts; None when one starts.

    Args:
        spec: The data set.
        marks: Marks of the data set's trainings.
        interval: Name of the interval that the run builds.
        context: Context of the task; the run's parameter ``training`` is each, last or none.

    Raises:
        WindowError: The interval is no tick of the schedule any more.
        StorageError: The publication root refused or failed.
    """
    wish = context["params"].get("training") or "each"
    if wish == "each":
        return None
    if wish == "none":
        return "the run was started with training: none"
    own = spec.schedule_model().interval_named(interval)
    later = _being_built(spec, own, context) or _asked_for(marks, interval, context)
    return None if later is None else f"training: last, and {later}"


def _asked_for(marks: TrainingMarks, interval: str, context: Context) -> str | None:
    run = context["dag_run"]
    found = marks.asked_since(run.start_date or run.run_after, after=interval)
    return None if found is None else f"{found} has asked for its training meanwhile"


def _being_built(spec: DatasetSpec, interval: Interval, context: Context) -> str | None:
    task: Any = context["ti"]
    dag_id = context["dag_run"].dag_id
    if task.get_dr_count(dag_id=dag_id, states=_ACTIVE) <= 1:
        return None  # this run alone
    for dates in _later_dates(spec, interval):
        count = task.get_dr_count(dag_id=dag_id, logical_dates=list(dates), states=_ACTIVE)
        if count:
            return f"runs of later intervals are active, {count} of those from {dates[0]:%Y-%m-%d}"
    return None


def _later_dates(spec: DatasetSpec, interval: Interval) -> Iterator[Sequence[datetime]]:
    """Yield the logical dates of the runs of later intervals, some at a time."""
    later = spec.schedule_model().intervals(interval.end, datetime.now(UTC))
    while dates := [each.start for each in islice(later, _DATES)]:
        yield dates
