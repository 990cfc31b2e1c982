"""Kubeflow's training operator, which creates the pods of PyTorchJobs and PaddleJobs."""

from __future__ import annotations

import base64
import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from services._process import Daemon, wait_until
from services.kubernetes._cluster_files import ADMIN, ClusterFiles
from services.kubernetes._go_program import GoProgram

if TYPE_CHECKING:
    from kubernetes import client


_MODULE: Final = Path(__file__).parents[1] / "config" / "kubernetes" / "training-operator"
_PACKAGE: Final = "github.com/kubeflow/training-operator/cmd/training-operator.v1"
_NAMESPACE: Final = "kubeflow"
# The operator writes its certificate into this Secret; a kubelet would mount it for the operator.
_SECRET: Final = "training-operator-webhook-cert"  # noqa: S105
_WEBHOOKS: Final = "validator.training-operator.kubeflow.org"
_CERTIFICATES: Final = Path("k8s-webhook-server", "serving-certs")
# The operator waits until this file exists, but reads the certificate below its TMPDIR.
_MOUNTED: Final = Path("/tmp") / _CERTIFICATES / "tls.crt"  # noqa: S108 - compiled into it


class TrainingOperator:
    """The real operator as a process beside the control plane.

    Its validating webhooks are registered without rules: the API server calls none of them.

    Args:
        daemon: The process, recorded in the home of the cluster.
        files: Files of the cluster, with the kubeconfig of an administrator.
    """

    def __init__(self, daemon: Daemon, files: ClusterFiles) -> None:
        self._daemon = daemon
        self._files = files
        self._program = GoProgram("training-operator", _MODULE, _PACKAGE)

    @property
    def is_built(self) -> bool:
        """Whether the program is built."""
        return self._program.path.exists()

    def unavailable(self) -> str | None:
        """Say why the operator cannot run here, or None."""
        return self._program.unavailable()

    def install(self) -> None:
        """Build the program, unless it is built."""
        self._program.install()

    def start(self, timeout_s: float = 60.0) -> None:
        """Start the operator unless it runs, and wait until it works; the cluster must run.

        Raises:
            ServiceError: The operator ended, or was not ready after ``timeout_s`` seconds.
        """
        if self._daemon.pid() is not None:
            return
        from services.kubernetes._cluster_objects import api_of

        folder = self._daemon.home / "training-operator"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / _CERTIFICATES).mkdir(parents=True)
        _MOUNTED.unlink(missing_ok=True)
        health = _free_port()
        with api_of(self._files.kubeconfig(ADMIN)) as api:
            _make_place(api)
            self._daemon.spawn(self._argv(health), environ={**os.environ, "TMPDIR": str(folder)})
            wait_until(
                lambda: _has_certificate(api, folder / _CERTIFICATES) and _answers(health),
                [self._daemon],
                what="the training operator",
                timeout_s=timeout_s,
            )

    def _argv(self, health: int) -> list[str]:
        return [
            *(str(self._program.path), f"-kubeconfig={self._files.kubeconfig(ADMIN)}"),
            *("-enable-scheme=pytorchjob", "-enable-scheme=paddlejob"),
            f"-metrics-bind-address=127.0.0.1:{_free_port()}",
            f"-health-probe-bind-address=127.0.0.1:{health}",
            f"-webhook-server-port={_free_port()}",
        ]


def _make_place(api: client.ApiClient) -> None:
    from kubernetes import client

    from services.kubernetes._cluster_objects import make_once

    core, hooks = client.CoreV1Api(api), client.AdmissionregistrationV1Api(api)
    make_once(lambda: core.create_namespace({"metadata": {"name": _NAMESPACE}}))
    secret = {"metadata": {"name": _SECRET}}
    make_once(lambda: core.create_namespaced_secret(_NAMESPACE, secret))
    webhooks = {"metadata": {"name": _WEBHOOKS}, "webhooks": []}
    make_once(lambda: hooks.create_validating_webhook_configuration(webhooks))


def _has_certificate(api: client.ApiClient, folder: Path) -> bool:
    """Copy the certificate from the Secret to the operator's folder; False while there is none."""
    from kubernetes import client

    data = client.CoreV1Api(api).read_namespaced_secret(_SECRET, _NAMESPACE).data or {}
    for name, value in data.items():
        (folder / name).write_bytes(base64.b64decode(value))
    if data:
        _MOUNTED.parent.mkdir(parents=True, exist_ok=True)
        _MOUNTED.touch()
    return bool(data)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
