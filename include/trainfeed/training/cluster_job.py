"""The attempts at a job on a cluster: made, adopted, and the error of a failed one."""

from __future__ import annotations

import logging
from collections.abc import Callable

from trainfeed.core import faults
from trainfeed.core.printable_text import printable, without_secrets
from trainfeed.errors import (
    JobFailedError,
    JobKilledError,
    JobRejectedError,
    LaunchError,
    StorageError,
)
from trainfeed.training.jobs import JobAttempt, JobLook, JobRecord, JobSpec, JobState
from trainfeed.training.jobs.kubernetes.launcher import KubernetesLauncher

logger = logging.getLogger(__name__)

_TAIL_BYTES = 2000


def claim_attempt(
    job: JobSpec,
    record: JobRecord,
    launcher: KubernetesLauncher,
    again: str | None,
    look: Callable[[], None] = lambda: None,
) -> tuple[JobAttempt, bool]:
    """Return the attempt to start or adopt, and whether this call has made it.

    Args:
        job: The job as it would be launched now; an existing attempt keeps its own job.
        record: The job's folder.
        launcher: The launcher; asked for the state of the newest attempt.
        again: Reason for a new attempt, if the newest one has failed.
        look: Called after the job file is written, and before an attempt is made; may refuse.
    """
    if again is not None and record.newest_attempt() is not None:
        settle(record, launcher)
    newest = record.newest_attempt()
    if newest is not None and not _may_follow(newest, record, again):
        if newest.ended is None:
            _continue(newest, record)
        return newest, False
    if newest is None:
        # From here on, retention keeps the versions that the job file names.
        record.write(job)
    look()
    number = 1 if newest is None else newest.number + 1
    is_new = record.claim(job.model_copy(update={"attempt": number}), again)
    faults.point("launch.after_record")
    return record.attempt(number), is_new


def _continue(attempt: JobAttempt, record: JobRecord) -> None:
    """Make an attempt young: the sweep of abandoned launches leaves out what a launch continues."""
    try:
        record.touch(attempt.number)
    except StorageError as error:
        # The file of another account: the sweep still looks for the job before it removes anything.
        logger.warning("the attempt keeps its age: %s", error)


def settle(record: JobRecord, launcher: KubernetesLauncher) -> JobLook:
    """Return the state of the newest attempt, and write down a final one.

    Raises:
        LaunchError: The cluster does not answer.
    """
    now, attempt = launcher.look(record), record.newest_attempt()
    if attempt is not None and attempt.ended is None and not now.state.is_live:
        # Cleaned first: once the end is written down, no call cleans this attempt any more.
        launcher.clean(attempt)
        faults.point("launch.before_end")
        record.end(attempt.number, now)
    return now


def cancel(record: JobRecord, launcher: KubernetesLauncher) -> JobLook:
    """Cancel the newest attempt, and return its state afterwards; fine if it has ended.

    Raises:
        LaunchError: The cluster does not answer.
    """
    if settle(record, launcher).state.is_live:
        launcher.cancel(record)
    return settle(record, launcher)


def is_cancelled(record: JobRecord, now: JobLook) -> bool:
    """Whether the newest attempt was ended on purpose, and left no result before."""
    attempt = record.newest_attempt()
    return attempt is not None and attempt.is_cancelled and now.state is not JobState.SUCCEEDED


def require_success(record: JobRecord, launcher: KubernetesLauncher) -> None:
    """Raise the error of the newest attempt, unless it succeeded.

    Raises:
        JobRejectedError: A rank refused the job.
        JobKilledError: The attempt was ended from outside.
        JobFailedError: The attempt failed, was cancelled, or is gone.
        LaunchError: The attempt has not ended, or the cluster does not answer.
    """
    now, job = settle(record, launcher), record.job()
    if now.state is JobState.SUCCEEDED:
        return
    if now.state.is_live:
        raise LaunchError(
            f"job {job.name} is {now.state}: {now.reason}; it goes on; ask again: trainfeed jobs"
            f" show {job.name}"
        )
    rank = next((each.rank for each in now.ranks if each.state is now.state), 0)
    tail = end_of_log(record, launcher, rank=rank, max_bytes=_TAIL_BYTES)
    message = (
        f"job {job.name}, attempt {job.attempt}, {_ENDED[now.state]}: {now.reason}; folder"
        f" {record.home}; the versions it read are untouched; {_remedy(job, now.state)}, and start"
        " it again with --again WHY (in Airflow: clear the task)"
    )
    raise _error(now)(f"{message}:\n{tail}" if tail else message)


def end_of_log(
    record: JobRecord, launcher: KubernetesLauncher | None, *, rank: int, max_bytes: int
) -> str:
    """Return the end of a rank's log, without secrets and control characters.

    The log is the file in the job's folder, or else that of the pod.
    """
    text = record.end_of_log(rank, max_bytes=max_bytes)
    if text is None:
        text = _of_cluster(record, launcher, rank, max_bytes) if launcher is not None else ""
    return printable(without_secrets(text[-max_bytes:]), keep="\n\t").strip()


def _of_cluster(record: JobRecord, launcher: KubernetesLauncher, rank: int, max_bytes: int) -> str:
    try:
        return launcher.logs(record, rank=rank, max_bytes=max_bytes)
    except LaunchError as error:
        return f"(no log: {error})"


def _may_follow(newest: JobAttempt, record: JobRecord, again: str | None) -> bool:
    if again is None or newest.ended is None or newest.ended.state is JobState.SUCCEEDED:
        return False
    return not record.has_reason(again)


def _error(now: JobLook) -> type[LaunchError]:
    if now.state is JobState.KILLED:
        return JobKilledError
    return JobRejectedError if now.is_rejected else JobFailedError


_ENDED = {
    JobState.FAILED: "failed",
    JobState.KILLED: "was killed",
    JobState.CANCELLED: "was cancelled",
    JobState.UNKNOWN: "is gone",
}


def _remedy(job: JobSpec, state: JobState) -> str:
    if state is JobState.FAILED:
        return f"fix {job.entry or 'its command'}"
    return "look at the cluster's events" if state is JobState.UNKNOWN else "see why"
