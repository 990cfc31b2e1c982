"""The state of a job's object, read from its status in the same way for every kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainfeed.jobs._job_state import JobState
from trainfeed.jobs.kubernetes._kinds import JobKind

__all__ = ["ObjectState", "object_state"]

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
