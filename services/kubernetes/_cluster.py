"""The cluster as a service: etcd, API server, controllers, our node, and Kubeflow's operator."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import socket
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from services._go_program import GoProgram, required_version
from services._home import REPOSITORY, default_home, remembered_ports
from services._packages import install_packages, packages_unavailable
from services._process import Daemon, ServiceError, run_tool, stop_daemons, wait_until
from services.kubernetes._pod_command import sweep_pods

if TYPE_CHECKING:
    from kubernetes import client


CONFIG: Final = Path(__file__).parents[1] / "config" / "kubernetes"

# --- Certificate, keys, tokens and kubeconfigs, made once per home, private to us

# The namespace of the tests' jobs, and their accounts: ADMIN has all rights, USER those of the
# documented role in NAMESPACE, STRANGER none.
NAMESPACE: Final = "trainings"
ADMIN: Final = "admin"
USER: Final = "trainfeed"
STRANGER: Final = "stranger"
_GROUPS: Final = {
    ADMIN: "system:masters",
    "system:kube-controller-manager": "system:masters",
    "node": "system:masters",
    USER: "trainfeed",
    STRANGER: "strangers",
}
_DAYS: Final = "3650"


class ClusterFiles:
    """The certificate, keys, tokens and kubeconfigs that the parts of one cluster share.

    One self-signed certificate serves the API server, the node and proxies between a client and the
    server; it is valid for 127.0.0.1 and localhost only.

    Args:
        folder: Folder of the files; :meth:`make` creates it.
        server: Address of the API server, ``https://127.0.0.1:PORT``.
    """

    def __init__(self, folder: Path, server: str) -> None:
        self.folder = folder
        self._server = server

    @property
    def certificate(self) -> Path:
        """The certificate, which is its own authority."""
        return self.folder / "tls.crt"

    @property
    def key(self) -> Path:
        """The private key of the certificate."""
        return self.folder / "tls.key"

    @property
    def account_key(self) -> Path:
        """The key that signs the tokens of service accounts."""
        return self.folder / "accounts.key"

    @property
    def tokens(self) -> Path:
        """Token, name, id and group of every account, in the form that the API server reads."""
        return self.folder / "tokens.csv"

    def kubeconfig(self, account: str) -> Path:
        """The file with which an account reaches the API server."""
        return self.folder / f"{account.rpartition(':')[2]}.kubeconfig"

    def make(self) -> None:
        """Create missing files; keep existing ones, so that clients outlive a restart.

        Raises:
            ServiceError: openssl failed.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.certificate.exists():
            self._make_certificate()
        if not self.account_key.exists():
            self._openssl("genrsa", "-out", str(self.account_key), "2048")
        if not self.tokens.exists():
            tokens = {account: secrets.token_hex(16) for account in _GROUPS}
            rows = [f'{tokens[a]},{a},{a},"{group}"\n' for a, group in _GROUPS.items()]
            _write(self.tokens, "".join(rows))
        for row in self.tokens.read_text().splitlines():
            token, account, *_ = row.split(",")
            _write(self.kubeconfig(account), self.config_text(token, self._server))

    def config_text(self, token: str, server: str) -> str:
        """Return a kubeconfig with a token and the server's address; JSON, so valid YAML."""
        cluster = {"server": server, "certificate-authority": str(self.certificate)}
        context = {"cluster": "tests", "user": "caller", "namespace": NAMESPACE}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "caller", "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": context}],
            "current-context": "tests",
        }
        return json.dumps(config, indent=1)

    def _make_certificate(self) -> None:
        self._openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", _DAYS),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
            *("-keyout", str(self.key), "-out", str(self.certificate)),
        )

    def _openssl(self, *arguments: str) -> None:
        run_tool(["openssl", *arguments], what="making the keys of kubernetes")


def _write(path: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(path, flags, 0o600), "w") as file:
        file.write(text)


# --- Kubeflow's training operator, which creates the pods of PyTorchJobs and PaddleJobs

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
        self._program = GoProgram("training-operator", CONFIG / "training-operator", _PACKAGE)

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


# --- The service

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
    module = CONFIG / "control-plane"
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
