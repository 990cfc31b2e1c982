"""The statuses of pods and of the node, as a kubelet reports them, in JSON of the API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from services.kubernetes._pod_command import ADDRESS

_CAPACITY: Final = {"cpu": "16", "memory": "64Gi", "pods": "200"}

Status = dict[str, Any]


def now() -> str:
    """The present time in the API's form."""
    return datetime.now(UTC).isoformat()


def node_ready(port: int) -> Status:
    """Status of a node that accepts pods and serves their logs at ``port``."""
    return {
        "capacity": _CAPACITY,
        "allocatable": _CAPACITY,
        "addresses": [{"type": "InternalIP", "address": ADDRESS}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "conditions": [_condition("Ready", "True", "Tests", "")],
    }


def unscheduled(reason: str) -> Status:
    """Status of a pod that this node cannot take."""
    return {"conditions": [_condition("PodScheduled", "False", "Unschedulable", reason)]}


def waiting(pod: dict[str, Any], reason: str, message: str) -> Status:
    """Status of a pod whose container cannot be started yet."""
    state = {"waiting": {"reason": reason, "message": message}}
    return _status(pod, "Pending", state, ready=False)


def running(pod: dict[str, Any], started: str) -> Status:
    """Status of a pod whose command runs."""
    return _status(pod, "Running", {"running": {"startedAt": started}}, ready=True)


def ended(pod: dict[str, Any], code: int, started: str, *, reason: str = "") -> Status:
    """Status of a pod whose command has ended."""
    terminated = {
        "exitCode": code,
        "reason": reason or ("Error" if code else "Completed"),
        "startedAt": started,
        "finishedAt": now(),
    }
    phase = "Failed" if code else "Succeeded"
    return _status(pod, phase, {"terminated": terminated}, ready=False)


def _status(pod: dict[str, Any], phase: str, state: Status, *, ready: bool) -> Status:
    container = pod["spec"]["containers"][0]
    told = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": state,
    }
    return {
        "phase": phase,
        "podIP": ADDRESS,
        "podIPs": [{"ip": ADDRESS}],
        "hostIP": ADDRESS,
        "conditions": [_condition("Ready", "True" if ready else "False", "", "")],
        "containerStatuses": [told],
    }


def _condition(kind: str, status: str, reason: str, message: str) -> Status:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now(),
    }
