"""One pod on the node, from its binding to its end; every change goes to the API server."""

from __future__ import annotations

import sys
import threading
import time
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import urllib3
from kubernetes import client

from services.kubernetes._pod_command import (
    ADDRESS,
    IMAGE,
    PodProcess,
    UnsupportedPodError,
    command_of,
    mounts_of,
)

# --- The statuses of pods and of the node, as a kubelet reports them, in JSON of the API

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


# --- The pod

# HTTP statuses that a repetition would not change: the object is gone or has changed, or the
# request is wrong.
_FINAL: Final = frozenset({400, 404, 409, 422})
_AGAIN_S: Final = 0.2
_CANNOT_START: Final = 128


class PodRun:
    """A pod that is bound to this node.

    Args:
        core: Client of the API server.
        pod: The pod, as JSON of the API.
        home: Folder of the service; the pod's own folder is ``pods/<uid>`` in it, and volume claims
            are folders in ``claims``.
    """

    def __init__(self, core: client.CoreV1Api, pod: dict[str, Any], home: Path) -> None:
        self._core = core
        self._pod = pod
        self._home = home
        self._process: PodProcess | None = None
        self._ending = threading.Event()

    @property
    def log(self) -> Path:
        """The file with the output of the container."""
        return self._folder / "log"

    def run(self) -> None:
        """Start the container, wait for its end, and report each state."""
        self._folder.mkdir(parents=True, exist_ok=True)
        started = now()
        image = self._pod["spec"]["containers"][0].get("image", "")
        if image != IMAGE:
            self._tell(waiting(self._pod, "ImagePullBackOff", f'Back-off pulling image "{image}"'))
            return
        try:
            self._process = self._start()
        except UnsupportedPodError as error:
            self._tell(waiting(self._pod, "CreateContainerConfigError", str(error)))
            return
        except OSError as error:
            self.log.write_text(f"{error}\n")
            self._tell(ended(self._pod, _CANNOT_START, started, reason="StartError"))
            return
        self._tell(running(self._pod, started))
        if self._ending.is_set():  # deleted while it was started
            self._process.end(0)
        self._tell(ended(self._pod, self._process.wait(), started))

    def lose(self) -> None:
        """Report the container as lost: it ran under a node that was killed."""
        self._tell(ended(self._pod, 137, now(), reason="ContainerStatusUnknown"))

    def end(self) -> None:
        """End the container within the pod's grace period, and delete the pod's object."""
        self._ending.set()
        grace_s = self._pod["spec"].get("terminationGracePeriodSeconds", 30)
        if self._process is not None:
            self._process.end(grace_s)
        insist(lambda: self._core.delete_namespaced_pod(*self._name, grace_period_seconds=0))

    def _start(self) -> PodProcess:
        if self._pod["spec"].get("restartPolicy") != "Never":
            raise UnsupportedPodError("the node starts a container once: restartPolicy: Never")
        claims = self._home / "claims"
        known = {path.name: path.resolve() for path in claims.glob("*")}
        mounts = mounts_of(self._pod, known, self._read, self._folder)
        command = command_of(self._pod, mounts, self._read, self._hosts(), self._folder)
        pods = self._home / "pods"
        return PodProcess(command, self._pod["metadata"]["uid"], pods, self.log)

    def _hosts(self) -> list[str]:
        """The host names that a cluster would resolve: Services and pods of the namespace."""
        _, namespace = self._name
        services = self._core.list_namespaced_service(namespace).items
        pods = self._core.list_namespaced_pod(namespace).items
        return [each.metadata.name for each in (*services, *pods)]

    def _read(self, kind: str, name: str) -> dict[str, bytes]:
        """Data of a ConfigMap or Secret of the pod's namespace."""
        _, namespace = self._name
        try:
            if kind == "Secret":
                secret = self._core.read_namespaced_secret(name, namespace)
                return {key: b64decode(value) for key, value in (secret.data or {}).items()}
            found = self._core.read_namespaced_config_map(name, namespace)
        except client.ApiException as error:
            raise UnsupportedPodError(f"{kind} {name!r} not found: {error.reason}") from error
        binary = {key: b64decode(value) for key, value in (found.binary_data or {}).items()}
        return binary | {key: value.encode() for key, value in (found.data or {}).items()}

    @property
    def _name(self) -> tuple[str, str]:
        metadata = self._pod["metadata"]
        return metadata["name"], metadata["namespace"]

    @property
    def _folder(self) -> Path:
        uid: str = self._pod["metadata"]["uid"]
        return self._home / "pods" / uid

    def _tell(self, status: dict[str, Any]) -> None:
        body = {"metadata": {"uid": self._pod["metadata"]["uid"]}, "status": status}
        insist(lambda: self._core.patch_namespaced_pod_status(*self._name, body))


def insist(call: Callable[[], object]) -> None:
    """Repeat a call until the API server accepts it, or refuses it for good."""
    while True:
        try:
            call()
        except client.ApiException as error:
            if error.status in _FINAL:
                if error.status != 404:
                    print(f"refused: {error}", file=sys.stderr)
                return
        except urllib3.exceptions.HTTPError:
            pass
        else:
            return
        time.sleep(_AGAIN_S)
