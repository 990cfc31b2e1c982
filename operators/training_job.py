"""Published versions of a training window → training job."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from operators._outcome import airflow_outcome, call_again
from operators._run_request import require_known, run_interval, window_request
from operators._stage import open_dataset
from operators.links import TrainingJobLink
from trainfeed.errors import WindowIncompleteError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.pipeline import JsonObject

__all__ = ["TrainingJobOperator"]

logger = logging.getLogger(__name__)

_FIRST_WAIT: Final = timedelta(seconds=5)
_LONGEST_WAIT: Final = timedelta(minutes=5)
_DOUBLINGS: Final = 10  # further ones would only overflow


class TrainingJobOperator(BaseOperator):
    """Train on the intervals that end with the one of the run, or adopt the finished job.

    It waits, without holding a worker slot, while versions of the window are missing: in a
    backfill the third day's event may come before the first day's version. The spec's
    ``train.wait``, counted from the start of the run, bounds the wait.

    Args:
        dataset: Name of the data set.

    Returns:
        The job's report: ``job``, ``verdict``, ``metrics``, ``intervals``, ``seconds``.
    """

    operator_extra_links = (TrainingJobLink(),)

    def __init__(self, *, dataset: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset

    def execute(self, context: Context) -> JsonObject:
        """Train, or ask to be called again while the window is incomplete."""
        from trainfeed.dataset import DatasetFolder, TrainingMarks
        from trainfeed.training.launch import train

        with airflow_outcome(context):
            require_known(context["params"], "window_start")
            spec, env = open_dataset(self.dataset)
            interval = run_interval(spec, window_request(context))
            # Before it waits: from here on, this run answers for the interval's training.
            TrainingMarks(DatasetFolder(Path(env.root), spec.name)).see(interval.name)
            try:
                return train(spec, env, interval)
            except WindowIncompleteError as error:
                limit = spec.train.wait if spec.train else timedelta()
                raise _later(error, context, limit) from error


def _later(error: WindowIncompleteError, context: Context, limit: timedelta) -> Exception:
    """The exception that makes Airflow call again, or fail the task after ``limit``."""
    run = context["dag_run"]
    now = datetime.now(UTC)
    deadline = (run.start_date or run.run_after) + limit
    if now >= deadline:
        return AirflowFailException(
            f"{error}; waited until {deadline:%Y-%m-%d %H:%M:%S} UTC, the limit train.wait of"
            " dataset.yaml; clear this task when they are published"
        )
    times = min(context.get("task_reschedule_count", 0), _DOUBLINGS)
    wait = min(_FIRST_WAIT * 2**times, _LONGEST_WAIT)
    logger.info("%s; looking again in %s, giving up at %s", error, wait, deadline)
    return call_again(min(now + wait, deadline))
