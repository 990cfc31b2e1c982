"""The state of a job, from its object and pods: success always needs a result that verifies."""

from __future__ import annotations

from typing import Final

from trainfeed.jobs._job_look import JobLook
from trainfeed.jobs._job_record import JobAttempt, JobRecord
from trainfeed.jobs._job_state import JobState
from trainfeed.jobs.kubernetes._object_states import ObjectState
from trainfeed.jobs.kubernetes._rank_pods import PodLook

__all__ = ["ended_well", "gone", "judged"]

_DEADLINE: Final = "DeadlineExceeded"
# Reasons of the cluster that no retry is left. Every kind counts as retries only ends from outside:
# a failure of a rank's own code has another reason. Kubeflow's operator has these words instead.
_NO_RETRY_LEFT: Final = frozenset({"BackoffLimitExceeded", "FailedIndexes", "ReachedMaxRestarts"})
_NO_RETRY_WORDS: Final = "backoff limit"


def gone(record: JobRecord, attempt: JobAttempt) -> JobLook:
    """Return the state of a job whose object is not on the cluster."""
    if record.result() is not None:
        return ended_well(record)
    if attempt.is_cancelled:
        return JobLook(JobState.CANCELLED, "it was cancelled")
    if not attempt.is_created:
        return JobLook(JobState.WAITING, "it is written down, and not made yet")
    return JobLook(
        JobState.UNKNOWN,
        "the cluster has no such job any more, and there is no result: the job was deleted before"
        " it ended, or its records were removed",
    )


def ended_well(record: JobRecord) -> JobLook:
    """Return the state of a job whose ranks all ended well.

    Raises:
        ChecksumError: A file of the output differs from the result.
        NotFoundError: A file of the output is gone.
    """
    result = record.result()
    if result is None:
        return JobLook(
            JobState.FAILED, "all ranks ended well, and rank 0 left no result: nothing was trained"
        )
    result.verify(record.home)
    return JobLook(JobState.SUCCEEDED)


def judged(attempt: JobAttempt, found: ObjectState, pods: list[PodLook]) -> JobLook:
    """Return the state of a job that still runs, or has failed."""
    ranks = tuple(pod.rank for pod in pods)
    if found.state is JobState.FAILED:
        state, reason = _failure(found, pods)
        if attempt.is_cancelled:
            state, reason = JobState.CANCELLED, "it was cancelled"
        rejected = any(pod.is_rejected for pod in pods)
        return JobLook(state, reason, ranks, is_rejected=rejected)
    waiting = [rank for rank in ranks if rank.reason]
    reason = f"rank {waiting[0].rank}: {waiting[0].reason}" if waiting else found.message
    state = found.state
    if state is JobState.STARTING and any(rank.state is JobState.WAITING for rank in ranks):
        state = JobState.WAITING
    return JobLook(state, reason, ranks)


def _failure(found: ObjectState, pods: list[PodLook]) -> tuple[JobState, str]:
    """Return state and reason of a failed job.

    A killed rank comes before a failed one: the other ranks fail because their peer is gone.
    """
    if found.cause == _DEADLINE:
        return JobState.FAILED, "it reached train.time_limit, and the cluster ended it"
    for state in (JobState.KILLED, JobState.FAILED):
        for pod in pods:
            if pod.rank.state is state:
                return state, f"rank {pod.rank.rank}: {pod.rank.reason}"
    said = f"{found.cause}: {found.message}".strip(": ")
    if found.cause in _NO_RETRY_LEFT or _NO_RETRY_WORDS in found.message:
        return JobState.KILLED, (
            f"ranks were ended from outside more often than train.retries allows ({said})"
        )
    return JobState.FAILED, said
