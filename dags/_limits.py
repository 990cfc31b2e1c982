"""How many runs of a data set may be active, and how many of them work.

Airflow counts a run that waits as active. A run of the schedule waits for log files until
``source.logs.wait`` after its interval has ended and settled, so only the intervals of that stretch
can wait at the same time: with one more active run for each of them, the others are never kept from
starting. What then bounds the work is how many tasks of each kind run at once.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import islice, pairwise
from typing import Any, Final

from trainfeed.specification import DatasetSpec

__all__ = ["MAX_TASKS_OF_RUN", "active_runs", "task_limits"]

# What Airflow allows by default, said here so that the limit of mapped tasks can be made of it.
MAX_TASKS_OF_RUN: Final = 16
# Beyond it runs do wait for each other: so many triggers are a load of their own.
_MOST_WAITING: Final = 500
_SAMPLED: Final = 100


def active_runs(spec: DatasetSpec) -> int:
    """How many runs of ``build.<data set>`` may be active: those that work and those that wait."""
    return spec.resources.max_active_runs + _waiting_runs(spec)


def task_limits(spec: DatasetSpec, *, is_mapped: bool = False) -> dict[str, Any]:
    """Arguments of a task that works: how many of its kind run at once, over all runs."""
    if spec.source.kind.folder_wait is None:
        return {}  # no run waits for long, so the limit of runs is enough
    at_once = spec.resources.max_active_runs
    # The furthest task first: an interval is finished before another one is begun.
    return {
        "max_active_tis_per_dag": at_once * MAX_TASKS_OF_RUN if is_mapped else at_once,
        "weight_rule": "upstream",
    }


def _waiting_runs(spec: DatasetSpec) -> int:
    """How many intervals can wait for their log files at the same time, at most."""
    kind = spec.source.kind
    if kind.folder_wait is None:
        return 0
    stretch = kind.settle + kind.folder_wait
    intervals = islice(spec.schedule_model().intervals(), _SAMPLED)
    starts = [interval.start for interval in intervals]
    shortest = min((after - before for before, after in pairwise(starts)), default=stretch)
    waiting = -(-stretch // max(shortest, timedelta(seconds=1))) + 1
    return min(waiting, _MOST_WAITING)
