"""The states of a job and of its ranks, read from its object and its pods."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainfeed.training.jobs.kubernetes.objects import JobKind
from trainfeed.training.jobs.record import JobAttempt, JobRecord
from trainfeed.training.jobs.states import (
    EXHAUSTED,
    REJECTED,
    RETRYABLE,
    JobLook,
    JobState,
    RankLook,
)

# --- The state of a job's object, read from its status in the same way for every kind

# Conditions of success: each kind has one of them.
_WELL: Final = ("Complete", "Completed", "Succeeded")


@dataclass(frozen=True)
class ObjectState:
    """The state of an object, as the cluster reports it.

    Attributes:
        state: The state; ``SUCCEEDED`` means that all ranks ended with status 0, with or without
            a result.
        cause: The cluster's name of the cause, such as ``DeadlineExceeded``; may be empty.
        message: The cluster's message for people; may be empty.
    """

    state: JobState
    cause: str = ""
    message: str = ""


def object_state(kind: JobKind, found: Mapping[str, Any]) -> ObjectState:
    """Return the state of an object: its conditions decide, then the counts of its pods."""
    status = found.get("status") or {}
    conditions = {each["type"]: each for each in _true(status)}
    for name in _WELL:
        if name in conditions:
            return _said(JobState.SUCCEEDED, conditions[name])
    for name, state in (
        ("Failed", JobState.FAILED),
        ("Suspended", JobState.WAITING),
        ("Restarting", JobState.STARTING),
        ("Running", JobState.RUNNING),
    ):
        if name in conditions:
            return _said(state, conditions[name])
    if (found.get("spec") or {}).get("suspend"):
        return ObjectState(JobState.WAITING, "Suspended", "the job is suspended")
    counts = list(_counts(kind, status))
    if any(count.get("ready") for count in counts):
        return ObjectState(JobState.RUNNING)
    is_active = any(count.get("active") for count in counts) or "Created" in conditions
    return ObjectState(JobState.STARTING if is_active else JobState.WAITING)


def _true(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for each in status.get("conditions") or ():
        if each.get("status") == "True":
            yield each


def _counts(kind: JobKind, status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if kind.statuses is None:
        yield status
    else:
        yield from status.get(kind.statuses) or ()


def _said(state: JobState, condition: Mapping[str, Any]) -> ObjectState:
    return ObjectState(state, condition.get("reason") or "", condition.get("message") or "")


# --- The states of a job's ranks, read from the pods: why a rank waits, and why a rank ended

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_REPLICA: Final = "training.kubeflow.org/replica-index"
_ROLE: Final = "training.kubeflow.org/replica-type"
_SIGNALLED: Final = 128
_FROM_OUTSIDE: Final = frozenset(
    _SIGNALLED + number for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
)
_OUT_OF_MEMORY: Final = (
    "killed, because it took more memory than its limit; raise train.memory, or use more ranks"
)
_TOO_OFTEN: Final = "it was ended from outside more often than train.retries allows"
_PHASES: Final[Mapping[object, JobState]] = {
    "Running": JobState.RUNNING,
    "Succeeded": JobState.SUCCEEDED,
}
# Kubernetes' reasons why a container does not start, and their meaning for people.
_NOT_STARTED: Final[Mapping[str, str]] = {
    "ContainerCreating": "its volumes and image are being fetched",
    "CreateContainerConfigError": "its configuration names what is not there",
    "ErrImagePull": "its image cannot be pulled",
    "ImagePullBackOff": "its image cannot be pulled",
    "InvalidImageName": "the name of its image is none",
    "RunContainerError": "the machine cannot run its container",
}


@dataclass(frozen=True)
class PodLook:
    """The state of one rank, read from its pod.

    Attributes:
        name: Name of the pod.
        rank: State of the rank, with the reason.
        is_rejected: Whether the rank refused its job.
    """

    name: str
    rank: RankLook
    is_rejected: bool = False


def look_at_pods(pods: Sequence[Mapping[str, Any]]) -> list[PodLook]:
    """Return the state of each rank from its newest pod, in the order of the ranks."""
    newest: dict[int, Mapping[str, Any]] = {}
    for pod in sorted(pods, key=_made_at):
        newest[_rank(pod)] = pod
    return [_look(rank, pod) for rank, pod in sorted(newest.items())]


def _made_at(pod: Mapping[str, Any]) -> str:
    return str((pod.get("metadata") or {}).get("creationTimestamp") or "")


def _rank(pod: Mapping[str, Any]) -> int:
    metadata = pod.get("metadata") or {}
    marks = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    number = str(marks.get(_INDEX, marks.get(_REPLICA, "0")))
    rank = int(number) if number.isdigit() else 0
    # In a PyTorchJob the master is rank 0, so worker 0 is rank 1; a PaddleJob has no master.
    return rank + 1 if marks.get(_ROLE) == "worker" and "pytorch" in _containers(pod) else rank


def _containers(pod: Mapping[str, Any]) -> list[str]:
    return [each.get("name", "") for each in (pod.get("spec") or {}).get("containers") or ()]


def _look(rank: int, pod: Mapping[str, Any]) -> PodLook:
    status = pod.get("status") or {}
    name = str((pod.get("metadata") or {}).get("name") or "")
    container: Mapping[str, Any] = next(iter(status.get("containerStatuses") or ()), {})
    now = container.get("state") or {}
    ended = now.get("terminated")
    if (pushed := _pushed_out(status)) and status.get("phase") == "Failed":
        return PodLook(name, RankLook(rank, JobState.KILLED, pushed))
    if ended is not None:
        return _ended(name, rank, ended)
    phase = status.get("phase")
    if phase == "Failed":
        why = status.get("message") or status.get("reason") or "the cluster does not say why"
        return PodLook(name, RankLook(rank, JobState.FAILED, str(why)))
    if phase in _PHASES:
        return PodLook(name, RankLook(rank, _PHASES[phase]))
    return PodLook(name, _unstarted(rank, status, now.get("waiting") or {}))


def _pushed_out(status: Mapping[str, Any]) -> str:
    """Return the reason why the cluster ended the pod, or "" when it did not."""
    if status.get("reason") == "Evicted":
        return f"evicted by its machine: {status.get('message') or 'no reason given'}"
    for each in status.get("conditions") or ():
        if each.get("type") == "DisruptionTarget" and each.get("status") == "True":
            return f"ended by the cluster ({each.get('reason')}): {each.get('message') or ''}"
    return ""


def _ended(name: str, rank: int, ended: Mapping[str, Any]) -> PodLook:
    code = int(ended.get("exitCode") or 0)
    if code == 0:
        return PodLook(name, RankLook(rank, JobState.SUCCEEDED))
    if ended.get("reason") == "OOMKilled":
        return PodLook(name, RankLook(rank, JobState.KILLED, _OUT_OF_MEMORY))
    if code in _FROM_OUTSIDE:
        number = signal.Signals(code - _SIGNALLED).name
        return PodLook(name, RankLook(rank, JobState.KILLED, f"ended by {number} from outside"))
    if code == RETRYABLE:
        return PodLook(name, RankLook(rank, JobState.KILLED, "it met an error that may pass"))
    if code == EXHAUSTED:
        return PodLook(name, RankLook(rank, JobState.KILLED, _TOO_OFTEN))
    how = f"it ended with status {code}"
    return PodLook(name, RankLook(rank, JobState.FAILED, how), is_rejected=code == REJECTED)


def _unstarted(rank: int, status: Mapping[str, Any], waiting: Mapping[str, Any]) -> RankLook:
    for each in status.get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            message = each.get("message") or each.get("reason") or ""
            return RankLook(rank, JobState.WAITING, f"no machine has room for it: {message}")
    reason = str(waiting.get("reason") or "")
    words = _NOT_STARTED.get(reason, reason)
    message = waiting.get("message") or ""
    return RankLook(rank, JobState.STARTING, f"{words}: {message}" if message else words)


# --- The state of a job, from its object and pods: success always needs a result that verifies

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
