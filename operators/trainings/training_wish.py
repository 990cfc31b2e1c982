"""The parameter ``training`` of a build: whether a training of the run's own interval starts.

A backfill of 300 days need not start 300 trainings: with ``last`` only the newest interval that is
being built starts one. A backfill of Airflow creates all its runs before the first one starts, so a
run sees the runs of later intervals that are active; the marks tell about those that have ended. If
the specification leaves the newest interval out, its run hands the wish over to the one before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.dataset import DatasetFolder, Untrained
    from trainfeed.intervals import Interval
    from trainfeed.specification import DatasetSpec

__all__ = ["hand_over", "why_declined"]

logger = logging.getLogger(__name__)

_ACTIVE: Final = ["queued", "running"]
# Dates per request: they are part of its URL, whose length is limited.
_DATES: Final = 100
# Beginning of the reasons of intervals that left their training to a later one.
_LAST: Final = "training: last, and "


def why_declined(
    spec: DatasetSpec, folder: DatasetFolder, interval: str, context: Context
) -> str | None:
    """Return the reason why no training of the run's interval starts; None when one starts.

    A run of an interval that is skipped counts no more. It may skip its interval at any moment, so
    ask again after the version is published: this run sees the skip, or ``hand_over`` of that run
    sees the version.

    Args:
        spec: The data set.
        folder: The data set below the publication root.
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
    later = _taken_later(spec, folder, interval, context)
    return None if later is None else f"{_LAST}{later}"


def hand_over(
    spec: DatasetSpec, folder: DatasetFolder, interval: str, context: Context
) -> Untrained | None:
    """Let the version before a skipped interval count as untrained, if it left its training to it.

    Call it after the marker of the skip is written.

    Args:
        spec: The data set.
        folder: The data set below the publication root.
        interval: Name of the interval that the run has skipped.
        context: Context of the task; the run's parameter ``training`` is each, last or none.

    Returns:
        The version; None when there is none, or a later interval takes the wish.

    Raises:
        StorageError: The publication root refused or failed.
    """
    from trainfeed.dataset import TrainingMarks

    if context["params"].get("training") != "last":
        return None
    published = (n for n in folder.intervals() if folder.current_generation(n) is not None)
    newest = max((name for name in published if name < interval), default=None)
    marks = TrainingMarks(folder)
    for each in marks.declined():
        if each.version.interval == newest and each.why.startswith(_LAST):
            if _taken_later(spec, folder, newest, context) is not None:
                return None
            marks.accept(each.version)
            return each.version
    return None


def _taken_later(
    spec: DatasetSpec, folder: DatasetFolder, interval: str, context: Context
) -> str | None:
    """Return what shows that a later interval is trained on, or None."""
    own = spec.schedule_model().interval_named(interval)
    return _being_built(spec, folder, own, context) or _asked_for(folder, interval, context)


def _asked_for(folder: DatasetFolder, interval: str, context: Context) -> str | None:
    from trainfeed.dataset import TrainingMarks

    run = context["dag_run"]
    found = TrainingMarks(folder).asked_since(run.start_date or run.run_after, after=interval)
    return None if found is None else f"{found} has asked for its training meanwhile"


def _being_built(
    spec: DatasetSpec, folder: DatasetFolder, interval: Interval, context: Context
) -> str | None:
    task: Any = context["ti"]
    dag_id = context["dag_run"].dag_id
    if task.get_dr_count(dag_id=dag_id, states=_ACTIVE) <= 1:
        return None  # this run alone
    for some in _later(spec, interval):
        count = _active(context, some)
        # Markers of skips are looked for only if a run is active: a look is a call of CephFS.
        if count:
            count = _active(context, [each for each in some if not _is_skipped(folder, each)])
        if count:
            since = f"{some[0].start:%Y-%m-%d}"
            return f"runs of later intervals are active, {count} of those from {since}"
    return None


def _active(context: Context, intervals: Sequence[Interval]) -> int:
    """Return the number of active runs of these intervals."""
    task: Any = context["ti"]
    dates = [each.start for each in intervals]
    if not dates:
        return 0
    dag_id = context["dag_run"].dag_id
    return int(task.get_dr_count(dag_id=dag_id, logical_dates=dates, states=_ACTIVE))


def _is_skipped(folder: DatasetFolder, interval: Interval) -> bool:
    from trainfeed.dataset.skip import read_skip

    if read_skip(folder, interval.name) is None:
        return False
    return folder.current_generation(interval.name) is None


def _later(spec: DatasetSpec, interval: Interval) -> Iterator[Sequence[Interval]]:
    """Yield later intervals, some at a time; a run has the start of its interval as its date."""
    later = spec.schedule_model().intervals(interval.end, datetime.now(UTC))
    while some := list(islice(later, _DATES)):
        yield some
