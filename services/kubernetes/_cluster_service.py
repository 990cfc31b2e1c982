"""The cluster as a service: etcd, API server, controllers, our node, optionally an operator."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from services._home import REPOSITORY, default_home, remembered_ports
from services._packages import install_packages, packages_unavailable
from services._process import Daemon, ServiceError, stop_daemons, wait_until
from services.kubernetes._cluster_files import ADMIN, NAMESPACE, ClusterFiles
from services.kubernetes._go_program import GoProgram, required_version
from services.kubernetes._pod_process import sweep_pods
from services.kubernetes._training_operator import TrainingOperator

_CONFIG: Final = Path(__file__).parents[1] / "config" / "kubernetes"
_PROGRAMS: Final = MappingProxyType({"openssl": "openssl"})
_DAEMONS: Final = ("etcd", "apiserver", "controllers", "node", "training-operator")
_CONTROLLERS: Final = (
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "ttl-after-finished-controller",
)
_ASK_S: Final = 5.0


class Kubernetes:
    """A cluster whose node runs the commands of pods as processes of this account.

    Args:
        home: State directory of the services; that of the cluster is ``<home>/kubernetes``.
        ports: All of ``PORTS``; chosen and remembered when missing.
    """

    name = "kubernetes"
    PORTS: Mapping[str, int] = MappingProxyType(
        {"api": 16443, "controllers": 16257, "etcd": 12379, "etcd-peer": 12380, "node": 16250}
    )

    def __init__(self, home: Path | None = None, *, ports: Mapping[str, int] | None = None) -> None:
        self.home = (home or default_home()).resolve() / self.name
        self._ports = ports
        self._daemons = {name: Daemon(name, self.home) for name in _DAEMONS}
        self._program = _control_plane()

    @property
    def ports(self) -> Mapping[str, int]:
        """Port by name, the same at every start of this home."""
        return self._ports or remembered_ports(self.home, self.PORTS)

    @property
    def server(self) -> str:
        """Address of the API server."""
        return f"https://127.0.0.1:{self.ports['api']}"

    @property
    def files(self) -> ClusterFiles:
        """Certificate, tokens and kubeconfigs."""
        return ClusterFiles(self.home / "cluster", self.server)

    @property
    def operator(self) -> TrainingOperator:
        """The operator of PyTorchJobs and PaddleJobs; ``stop`` ends it, ``start`` leaves it out."""
        return TrainingOperator(self._daemons["training-operator"], self.files)

    @property
    def is_built(self) -> bool:
        """Whether the control plane is built, so that a start takes seconds."""
        return self._program.path.exists()

    def unavailable(self) -> str | None:
        """Say why the cluster cannot run here, or None."""
        return packages_unavailable(_PROGRAMS) or self._program.unavailable()

    def install(self) -> None:
        """Build the control plane, unless it is built."""
        install_packages(_PROGRAMS)
        self._program.install()

    def start(self, *, fresh: bool = False) -> None:
        """Start etcd and the API server; :meth:`wait` starts the other daemons, which need them."""
        if fresh:
            self.stop()
            for folder in ("etcd", "pods"):
                shutil.rmtree(self.home / folder, ignore_errors=True)
        self.files.make()
        self._spawn("etcd", self._etcd())
        self._spawn("apiserver", self._apiserver())

    def wait(self, timeout_s: float = 60.0) -> None:
        """Start controllers and node, and wait until pods can be created and run."""
        first = [self._daemons["etcd"], self._daemons["apiserver"]]
        wait_until(
            lambda: self._get("/readyz") is not None, first, what=self.name, timeout_s=timeout_s
        )
        self._spawn("controllers", self._controllers())
        self._spawn("node", self._node())
        self._make_objects()
        daemons = [*first, self._daemons["controllers"], self._daemons["node"]]
        wait_until(self._usable, daemons, what=self.name, timeout_s=timeout_s)

    def status(self) -> dict[str, int | None]:
        """Pid of each daemon."""
        return {name: daemon.pid() for name, daemon in self._daemons.items()}

    def stop(self) -> None:
        """End the processes of pods, then the daemons in reverse order of their start."""
        stop_daemons([self._daemons["node"], self._daemons["training-operator"]])
        sweep_pods(self.home / "pods")
        for name in ("controllers", "apiserver", "etcd"):
            stop_daemons([self._daemons[name]])

    def kill(self, daemon: str) -> None:
        """End a daemon with SIGKILL; pods of a killed node run on until the next start or stop."""
        self._daemons[daemon].kill()

    def exports(self) -> dict[str, str]:
        """The variable by which tests find the state directory of the cluster."""
        return {"TEST_KUBERNETES_HOME": str(self.home.parent)}

    def _spawn(self, name: str, argv: list[str]) -> None:
        daemon = self._daemons[name]
        if daemon.pid() is None:
            environ = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'include'}"}
            daemon.spawn(argv, environ=environ)

    def _etcd(self) -> list[str]:
        clients = f"http://127.0.0.1:{self.ports['etcd']}"
        peers = f"http://127.0.0.1:{self.ports['etcd-peer']}"
        return [
            *(str(self._program.path), "etcd", "--name=tests", f"--data-dir={self.home / 'etcd'}"),
            *(f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}"),
            *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"),
            *(f"--initial-cluster=tests={peers}", "--unsafe-no-fsync", "--log-level=warn"),
        ]

    def _apiserver(self) -> list[str]:
        files, key = self.files, str(self.files.account_key)
        return [
            *(str(self._program.path), "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self.ports['etcd']}",
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"),
            f"--secure-port={self.ports['api']}",
            *(f"--tls-cert-file={files.certificate}", f"--tls-private-key-file={files.key}"),
            *("--authorization-mode=RBAC", "--anonymous-auth=false"),
            f"--token-auth-file={files.tokens}",
            "--service-account-issuer=https://kubernetes.default.svc",
            *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
            # The node refuses callers without this certificate.
            f"--kubelet-client-certificate={files.certificate}",
            f"--kubelet-client-key={files.key}",
            f"--kubelet-certificate-authority={files.certificate}",
            *("--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none"),
            "--disable-admission-plugins=TaintNodesByCondition",
            *("--allow-privileged=false", "--profiling=false", "--v=1"),
        ]

    def _controllers(self) -> list[str]:
        config = str(self.files.kubeconfig("system:kube-controller-manager"))
        return [
            *(str(self._program.path), "kube-controller-manager"),
            *(f"--{what}kubeconfig={config}" for what in ("", "authentication-", "authorization-")),
            *("--bind-address=127.0.0.1", f"--secure-port={self.ports['controllers']}"),
            *("--leader-elect=false", f"--controllers={','.join(_CONTROLLERS)}"),
            f"--service-account-private-key-file={self.files.account_key}",
            *("--kube-api-qps=500", "--kube-api-burst=500", "--concurrent-job-syncs=20"),
            # Quotas are counted every second: the default of five minutes is too long for a test.
            *("--resource-quota-sync-period=1s", "--profiling=false", "--v=1"),
        ]

    def _node(self) -> list[str]:
        module = "services.kubernetes.node"
        place = ["--home", str(self.home), "--port", str(self.ports["node"])]
        return [sys.executable, "-m", module, *place, "--api", self.server]

    def _make_objects(self) -> None:
        from services.kubernetes._cluster_objects import api_of, make_objects

        with api_of(self.files.kubeconfig(ADMIN)) as api:
            make_objects(api)

    def _usable(self) -> bool:
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        node = self._get("/api/v1/nodes/tests")
        conditions = node["status"].get("conditions", []) if isinstance(node, dict) else []
        ready = any(each["type"] == "Ready" for each in conditions)
        return ready and self._get(account) is not None

    def _get(self, path: str) -> Any:
        """Return the server's answer to an administrator; None on an error."""
        config = json.loads(self.files.kubeconfig(ADMIN).read_text())
        token = config["users"][0]["user"]["token"]
        request = urllib.request.Request(  # noqa: S310 - our own address
            self.server + path, headers={"Authorization": f"Bearer {token}"}
        )
        trust = ssl.create_default_context(cafile=str(self.files.certificate))
        try:
            with urllib.request.urlopen(request, timeout=_ASK_S, context=trust) as answer:  # noqa: S310
                body = answer.read()
        except (urllib.error.URLError, OSError):
            return None
        return json.loads(body) if body[:1] == b"{" else body.decode()


def _control_plane() -> GoProgram:
    module = _CONFIG / "control-plane"
    if not (module / "go.mod").exists():
        raise ServiceError(f"{module} is not complete; check the repository out again")
    version = required_version(module, "k8s.io/kubernetes")
    major, minor, _ = version.removeprefix("v").split(".")
    package = "k8s.io/component-base/version"
    values = {
        f"{package}.gitVersion": version,
        f"{package}.gitMajor": major,
        f"{package}.gitMinor": minor,
        "k8s.io/client-go/pkg/version.gitVersion": version,
    }
    return GoProgram("control-plane", module, ".", values)
