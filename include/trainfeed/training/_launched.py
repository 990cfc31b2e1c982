"""What follows on a launch: looks at the job until it ends, then a report or an error.

``look`` returns the state of a job, ``wait_for`` its last state, and ``collect`` turns its end into
a report or an error. All of them take the value of a launch, and none makes a job.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from trainfeed.errors import (
    GateError,
    JobFailedError,
    JobKilledError,
    JobRejectedError,
    TrainFeedError,
)
from trainfeed.jobs import JobLook, JobRecord, JobRemoval, JobSpec, LocalLauncher, describe
from trainfeed.jobs.kubernetes.launcher import KubernetesLauncher
from trainfeed.specification import DatasetSpec, TrainSpec, nearest
from trainfeed.tracking import Tracker
from trainfeed.training._cluster_job import cancel, is_cancelled, require_success, settle
from trainfeed.training._window_job import require_training

__all__ = ["Launched", "cancel_launched", "collect", "look", "told_of_failure", "wait_for"]

# The name of the public module, by which readers of logs know these lines.
logger = logging.getLogger("trainfeed.training.launch")

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 15.0


@dataclass(frozen=True)
class Launched:
    """A job that was started or adopted.

    Attributes:
        job: The job; on a cluster, that of the newest attempt.
        record: The job's folder.
        launcher: The launcher that runs the job.
        verdict: ``ran`` when this launch has started the job, else ``adopted``.
        tracker: Delivers the job to a tracking server; None if the specification names none.
    """

    job: JobSpec
    record: JobRecord
    launcher: LocalLauncher | KubernetesLauncher
    verdict: str
    tracker: Tracker | None = None

    def deliver(self, status: str) -> dict[str, str]:
        """Deliver the job to the tracking server; return how that ended, {} without a server."""
        return self.tracker.job(self.record, self.job, status) if self.tracker else {}


def look(launched: Launched) -> JobLook:
    """Return the state of a job; a final state of a job on a cluster is written down.

    Raises:
        LaunchError: The cluster does not answer.
    """
    if isinstance(launched.launcher, LocalLauncher):
        return launched.launcher.look(launched.record)
    return settle(launched.record, launched.launcher)


def cancel_launched(launched: Launched) -> None:
    """Cancel a job on a cluster, and deliver that to the tracking server; fine if it has ended.

    A local job ends with the process that launched it: nothing is done here.

    Raises:
        LaunchError: The cluster does not answer.
    """
    if isinstance(launched.launcher, LocalLauncher):
        return
    now = cancel(launched.record, launched.launcher)
    if is_cancelled(launched.record, now):
        launched.deliver("KILLED")


def wait_for(launched: Launched, pause: Callable[[float], object] | None = None) -> JobLook:
    """Wait until a job has ended, log every change of its state, and return the last state.

    Args:
        launched: The job.
        pause: Called with a number of seconds to wait between two looks.
    """
    wait = threading.Event().wait if pause is None else pause
    told, pause_s = None, _FIRST_PAUSE_S
    while (now := look(launched)).state.is_live:
        if (now.state, now.reason) != told:
            logger.info("job %s is %s %s", launched.job.name, now.state, now.reason)
            told, pause_s = (now.state, now.reason), _FIRST_PAUSE_S
        wait(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return now


def collect(spec: DatasetSpec, launched: Launched, *, seconds: float) -> dict[str, Any]:
    """Return the report of a job that has ended; see ``train``.

    Args:
        spec: The data set.
        launched: The job.
        seconds: Seconds since the launch, for the report.

    Raises:
        JobFailedError: The job failed, was cancelled, or is gone without a result.
        JobKilledError: The job was ended from outside.
        JobRejectedError: A rank refused the job.
        ChecksumError: A file of the job's output differs from its result.
        GateError: The job's metric is below ``train.min``.
    """
    job, record = launched.job, launched.record
    if isinstance(launched.launcher, KubernetesLauncher):
        with told_of_failure(launched):
            require_success(record, launched.launcher)
    result = record.result()
    if result is None:
        raise JobFailedError(
            f"job {job.name}: its result in {record.home} is gone; train again"
            " (in Airflow: clear the task)"
        )
    removal = JobRemoval.read(record.home)
    if removal is None:
        result.verify(record.home)
    metrics = dict(result.metrics)
    delivered = launched.deliver("FINISHED")
    _gate(require_training(spec), job, metrics)
    logger.info("train %s: %s in %.1f s, %s", job.name, launched.verdict, seconds, metrics)
    return {
        **describe(job),
        "verdict": launched.verdict,
        "metrics": metrics,
        "folder": str(record.home),
        "seconds": round(seconds, 3),
        **({"tracking": delivered} if delivered else {}),
        **({"removed": removal.told} if removal else {}),
    }


@contextmanager
def told_of_failure(launched: Launched) -> Iterator[None]:
    """Deliver that a job has failed, or was killed or cancelled, and let the error pass."""
    try:
        yield
    except JobKilledError:
        launched.deliver("KILLED")
        raise
    except (JobFailedError, JobRejectedError):
        launched.deliver("KILLED" if _is_cancelled(launched.record) else "FAILED")
        raise


def _is_cancelled(record: JobRecord) -> bool:
    with suppress(TrainFeedError):  # a damaged file of the attempt is the error that is reported
        attempt = record.newest_attempt()
        return attempt is not None and attempt.is_cancelled
    return False


def _gate(training: TrainSpec, job: JobSpec, metrics: dict[str, Any]) -> None:
    if training.metric is None or training.min is None:
        return
    value = metrics.get(training.metric)
    if value is None:
        like = nearest(training.metric, metrics) or "none is like it"
        raise GateError(
            f"job {job.name} finished without train.metric {training.metric!r}: {training.entry}"
            f" returned {', '.join(sorted(metrics))}; {like}; its result is kept;"
            " change dataset.yaml and run it again, which finds the result"
        )
    if value < training.min:
        raise GateError(
            f"job {job.name} finished with {training.metric} = {value}, train.min is"
            f" {training.min}; its result is kept; look at the data of {job.interval} or change"
            " dataset.yaml"
        )
