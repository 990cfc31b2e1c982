"""The node and the scheduler of the cluster: ``python -m services.kubernetes.node --home …``.

Every pod that this node can run is bound to it and started as a process. A pod that selects another
node, or asks for a device, stays "Unschedulable"; a test can write its status in a kubelet's place.
"""

from __future__ import annotations

import argparse
import signal
import ssl
import sys
import threading
import urllib.parse
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import urllib3
from kubernetes import client, watch

from services.kubernetes._cluster import ClusterFiles
from services.kubernetes._cluster_objects import api_of
from services.kubernetes._pod_command import sweep_pods
from services.kubernetes._pod_run import PodRun, insist, node_ready, unscheduled

# --- The logs of pods, served to the API server as a kubelet does

_BLOCK: Final = 1 << 16

Find = Callable[[str, str], Path | None]


class LogServer:
    """Serves ``/containerLogs/NAMESPACE/POD/CONTAINER`` to callers with the cluster's certificate.

    Args:
        port: Port on 127.0.0.1.
        certificate: Certificate of the server, and of every caller.
        key: The private key of the certificate.
        find: Returns the log of a pod, by namespace and name, or None.
    """

    def __init__(self, port: int, certificate: Path, key: Path, find: Find) -> None:
        handler = type("Handler", (_Handler,), {"find": staticmethod(find)})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trust.load_cert_chain(certificate, key)
        trust.load_verify_locations(certificate)
        trust.verify_mode = ssl.CERT_REQUIRED
        self._server.socket = trust.wrap_socket(self._server.socket, server_side=True)

    def start(self) -> None:
        """Serve in threads that end with this process."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    find: Find

    def do_GET(self) -> None:
        address = urllib.parse.urlsplit(self.path)
        asked = {key: values[-1] for key, values in urllib.parse.parse_qs(address.query).items()}
        match address.path.split("/"):
            case ["", "containerLogs", namespace, pod, _]:
                self._answer(self.find(namespace, pod), asked)
            case _:
                self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write nothing: the node's log is for errors, not for requests."""

    def _answer(self, log: Path | None, asked: dict[str, str]) -> None:
        if log is None or not log.exists():
            self.send_error(HTTPStatus.NOT_FOUND, "the pod has no log on this node")
            return
        data = _tail(log, int(asked["tailLines"])) if "tailLines" in asked else log.read_bytes()
        data = data[: int(asked.get("limitBytes", len(data)))]
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _tail(log: Path, lines: int) -> bytes:
    """Return the last ``lines`` lines of a file, which is read in blocks from its end."""
    data = b""
    with log.open("rb") as file:
        position = file.seek(0, 2)
        while position and data.count(b"\n") <= lines:
            step = min(_BLOCK, position)
            position = file.seek(position - step)
            data = file.read(step) + data
    return b"".join(data.splitlines(keepends=True)[-lines:]) if lines else b""


# --- The node

_NODE: Final = "tests"
_WATCH_S: Final = 30
_AGAIN_S: Final = 0.2
_OWN_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


class Node:
    """Binds and runs pods until :attr:`ended` is set.

    Args:
        api: Client of an account with all rights.
        home: Folder of the service.
    """

    def __init__(self, api: client.ApiClient, home: Path) -> None:
        self._api = api
        self._core = client.CoreV1Api(api)
        self._home = home
        self._runs: dict[str, PodRun] = {}
        self._logs: dict[tuple[str, str], Path] = {}
        self._told: set[str] = set()
        self.ended = threading.Event()

    def register(self, port: int) -> None:
        """Create the node's object, with status ready and the port of its logs."""
        insist(lambda: self._core.create_node({"metadata": {"name": _NODE}}))
        insist(lambda: self._core.patch_node_status(_NODE, {"status": node_ready(port)}))

    def find_log(self, namespace: str, pod: str) -> Path | None:
        """Return the log file of a pod that is or was on this node, else None."""
        return self._logs.get((namespace, pod))

    def serve(self) -> None:
        """Handle every change of every pod until :attr:`ended` is set."""
        while not self.ended.is_set():
            try:
                self._look()
            except (client.ApiException, urllib3.exceptions.HTTPError) as error:
                # The server is away, or the resource version of the watch is too old: list again.
                print(f"looking again: {type(error).__name__}", file=sys.stderr)
                self.ended.wait(_AGAIN_S)

    def close(self) -> None:
        """Stop serving, and kill the processes of all pods."""
        self.ended.set()
        sweep_pods(self._home / "pods")

    def _look(self) -> None:
        found = self._core.list_pod_for_all_namespaces()
        for pod in found.items:
            self._see("ADDED", self._plain(pod))
        events = watch.Watch().stream(
            self._core.list_pod_for_all_namespaces,
            resource_version=found.metadata.resource_version,
            timeout_seconds=_WATCH_S,
        )
        for event in events:
            self._see(event["type"], self._plain(event["object"]))

    def _plain(self, pod: client.V1Pod) -> dict[str, Any]:
        plain: dict[str, Any] = self._api.sanitize_for_serialization(pod)
        return plain

    def _see(self, change: str, pod: dict[str, Any]) -> None:
        metadata, uid = pod["metadata"], pod["metadata"]["uid"]
        bound = pod["spec"].get("nodeName")
        if change == "DELETED":
            if (gone := self._runs.pop(uid, None)) is not None:
                _begin(gone.end)  # deleted without a grace period: its process still runs here
        elif bound is None:
            self._schedule(pod)
        elif bound == _NODE and "deletionTimestamp" in metadata:
            _begin(self._runs.pop(uid, PodRun(self._core, pod, self._home)).end)
        elif bound == _NODE and uid not in self._runs:
            self._take(pod)

    def _take(self, pod: dict[str, Any]) -> None:
        metadata, phase = pod["metadata"], pod["status"].get("phase")
        run = self._runs[metadata["uid"]] = PodRun(self._core, pod, self._home)
        self._logs[metadata["namespace"], metadata["name"]] = run.log
        if phase == "Pending":
            _begin(run.run)
        elif phase == "Running":
            _begin(run.lose)

    def _schedule(self, pod: dict[str, Any]) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        if (reason := _refusal(pod["spec"])) is None:
            target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": _NODE}}
            # The server answers with a Status, which the client cannot parse as a binding.
            insist(
                lambda: self._core.create_namespaced_pod_binding(
                    name, namespace, target, _preload_content=False
                )
            )
        elif pod["metadata"]["uid"] not in self._told:
            self._told.add(pod["metadata"]["uid"])
            body = {"status": unscheduled(reason)}
            insist(lambda: self._core.patch_namespaced_pod_status(name, namespace, body))


def _refusal(spec: dict[str, Any]) -> str | None:
    """Return the reason why this node cannot run a pod; None if it can."""
    if spec.get("schedulingGates"):
        return "the pod has scheduling gates"
    if wanted := spec.get("nodeSelector"):
        return f"0/1 nodes are available: 1 node(s) didn't match Pod's node selector {wanted}"
    for container in spec["containers"]:
        asked = (container.get("resources") or {}).get("requests") or {}
        if missing := sorted(asked.keys() - _OWN_RESOURCES):
            return f"0/1 nodes are available: 1 Insufficient {', '.join(missing)}"
    return None


def _begin(work: Any) -> None:
    threading.Thread(target=work, daemon=True).start()


def main(arguments: list[str]) -> None:
    """Run the node until SIGTERM."""
    parser = argparse.ArgumentParser(prog="services.kubernetes.node")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--api", required=True)
    options = parser.parse_args(arguments)
    files = ClusterFiles(options.home / "cluster", options.api)
    node = Node(api_of(files.kubeconfig("node")), options.home)
    sweep_pods(options.home / "pods")
    LogServer(options.port, files.certificate, files.key, node.find_log).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _leave(node))
    node.register(options.port)
    node.serve()


def _leave(node: Node) -> None:
    node.close()
    raise SystemExit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
