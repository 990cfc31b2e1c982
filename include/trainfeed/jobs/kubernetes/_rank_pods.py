"""The states of a job's ranks, read from the pods: why a rank waits, and why a rank ended."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainfeed.jobs._job_look import RankLook
from trainfeed.jobs._job_state import JobState
from trainfeed.jobs._rank_status import EXHAUSTED, REJECTED, RETRYABLE

__all__ = ["PodLook", "look_at_pods"]

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
