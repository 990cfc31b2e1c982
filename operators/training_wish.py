"""Whether a run's own interval is trained on: what ``training`` in the form of a build says.

300 days that are built again need not be 300 trainings. With ``last`` the newest interval of those
that are being built asks for one. A backfill of Airflow creates all its runs before the first of
them starts, so a run sees the later ones; what those have asked for already, the marks tell.
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

__all__ = ["TRAINING_WISHES", "why_declined"]

logger = logging.getLogger(__name__)

TRAINING_WISHES: Final = ("each", "last", "none")
_ACTIVE: Final = ["queued", "running"]
# Dates of one request: they are part of its address.
_DATES: Final = 100


def why_declined(
    spec: DatasetSpec, marks: TrainingMarks, interval: str, context: Context
) -> str | None:
    """Return why the run wants no training of its interval; None when it wants one.

    Args:
        spec: The data set.
        marks: What its trainings have seen.
        interval: Name of the one that the run builds.
        context: Of the task; the run's parameter ``training`` is each, last or none.

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
