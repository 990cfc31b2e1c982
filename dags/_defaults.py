"""The common settings of all DAGs: retries, limits of times, runs and tasks, tags, assets.

Only this module makes assets, because Airflow refuses, at run time, a task whose asset URI is known
under a second name.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import islice, pairwise
from typing import Any, Final

from airflow.sdk import Asset

from trainfeed.specification import DatasetSpec

RETRY_DELAY: Final = timedelta(seconds=5)
RETRY_BACKOFF: Final = 6.0  # second try within 10 s, for a flake; third one after 30 to 60 s more

SINGLE_LIMIT: Final = timedelta(hours=1)
MAPPED_LIMIT: Final = timedelta(hours=3)
TRAINING_LIMIT: Final = timedelta(hours=12)
# How long a run waits for a person's answer about gates that ask.
ANSWER_LIMIT: Final = timedelta(days=7)

DEFAULT_ARGS: Final[dict[str, Any]] = {
    "owner": "trainfeed",
    "retries": 2,
    "retry_delay": RETRY_DELAY,
    "retry_exponential_backoff": RETRY_BACKOFF,
    "execution_timeout": SINGLE_LIMIT,
}
TAGS: Final = ("trainfeed",)


def dataset_asset(dataset: str) -> Asset:
    """Return the asset of a data set; its events have the interval's name as partition key."""
    return Asset(name=dataset, uri=f"trainfeed://{dataset}")


def uploads_asset(dataset: str) -> Asset:
    """Return the asset of the uploads of a data set; an event tells of new receipts."""
    return Asset(name=f"{dataset}.uploads", uri=f"trainfeed://{dataset}/uploads")


# --- Limits of a data set's active runs, and of its tasks at work
#
# Airflow counts a waiting run as active. A run of the schedule waits for its source or for uploads
# until ``wait`` after its interval has ended and settled, and a run with a gate that asks waits for
# a person for ``ANSWER_LIMIT``, so only intervals of that span can wait at the same time. The limit
# of active runs has one more for each of them, so that waiting runs never keep others from
# starting. The work itself is limited by the number of tasks of each kind that run at once.

# The default of Airflow, written here because the limit of mapped tasks is computed from it.
MAX_TASKS_OF_RUN: Final = 16
# Limit of the additional runs: above it runs wait for each other, because so many triggers would be
# a load of their own.
_MOST_WAITING: Final = 500
_SAMPLED: Final = 100


def active_runs(spec: DatasetSpec) -> int:
    """Return the most active runs of ``build.<data set>``: runs at work and waiting runs."""
    return spec.resources.max_active_runs + _waiting_runs(spec)


def task_limits(spec: DatasetSpec, *, is_mapped: bool = False) -> dict[str, Any]:
    """Return arguments of a task that limit how many of its kind run at once, over all runs."""
    if not _stretches(spec):
        return {}  # no run waits for long, so the limit of runs is enough
    at_once = spec.resources.max_active_runs
    # Later tasks have priority: an interval is finished before another one begins.
    return {
        "max_active_tis_per_dag": at_once * MAX_TASKS_OF_RUN if is_mapped else at_once,
        "weight_rule": "upstream",
    }


def asks(spec: DatasetSpec) -> bool:
    """Return whether a gate of the data set asks a person."""
    return any(gate.severity == "ask" for gate in spec.quality)


def _stretches(spec: DatasetSpec) -> list[timedelta]:
    """Return how long a run may wait for source or uploads, and for the answer of a person."""
    waits = [
        each.source.kind.settle + each.wait for each in spec.of_each_source if each.missing_rules
    ]
    source = [max(waits)] if waits else []
    return [*source, *([ANSWER_LIMIT] if asks(spec) else [])]


def _waiting_runs(spec: DatasetSpec) -> int:
    """Return the most intervals that can wait for a source, uploads or an answer at once."""
    if not _stretches(spec):
        return 0
    stretch = sum(_stretches(spec), timedelta(0))
    intervals = islice(spec.schedule_model().intervals(), _SAMPLED)
    starts = [interval.start for interval in intervals]
    shortest = min((after - before for before, after in pairwise(starts)), default=stretch)
    waiting = -(-stretch // max(shortest, timedelta(seconds=1))) + 1
    return min(waiting, _MOST_WAITING)
