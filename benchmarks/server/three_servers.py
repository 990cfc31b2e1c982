"""The three servers of trainfeed over TLS, each in a process of its own, and callers of them.

The apps are those of the commands; in place of a model there is an engine that doubles numbers, and
in place of published versions a list of tasks.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import resource
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from benchmarks.dispatch.chunks_per_second import Tasks
from trainfeed.prediction import ModelFacts, Outcome, OutcomeKind
from trainfeed.prediction.opened_model import ModelPlace
from trainfeed.prediction.service import ServiceSettings, _app
from trainfeed.prediction.worker import PredictionLimits
from trainfeed.serving.dispatch import QueueOptions, TaskQueue
from trainfeed.serving.dispatch.master import _Watch, make_master
from trainfeed.serving.pfs.file_server import FileServerSettings, make_file_server
from trainfeed.serving.server import Limits, ServerSettings, new_token, serve
from trainfeed.training.models import ChosenModel, ModelsFolder

__all__ = ["KINDS", "Door", "Kind", "served"]

_CALLERS: Final = ("anna", "bert", "carla")
_SECONDS: Final = 240.0


@dataclass(frozen=True)
class Kind:
    """One of the servers: what is asked for, with the name of the caller as ``{who}``.

    Attributes:
        name: Name of the server.
        look: Path of a request that changes nothing.
        post: Path of a request with a JSON body.
        body: The body.
        refused: Path of a look that the route refuses.
        status: Status of that refusal.
    """

    name: str
    look: str
    post: str
    body: dict[str, Any]
    refused: str
    status: int


_ASK: Final = {"data": "0" * 64, "pass_number": 1, "trainer": "0" * 32, "number": 1, "want": 1}
_FILES: Final = "/api/v1/pfs/files"
KINDS: Final = {
    each.name: each
    for each in (
        Kind(
            "files",
            f"{_FILES}?path=/pfs/dc/home/{{who}}",
            _FILES,
            {"method": "mkdir", "path": "/pfs/dc/home/{who}/made", "parents": True},
            f"{_FILES}?path=/pfs/dc/home/nobody",
            403,
        ),
        Kind("predictions", "/v1/model", "/v1/predict", {"records": ["1"]}, "/v1/predict", 405),
        Kind("chunks", "/status", "/ask", _ASK, "/ask", 405),
    )
}


@dataclass
class Doubling:
    """A model without a process; a file ends it, another lets a batch fail for good."""

    folder: Path
    facts: ModelFacts = field(
        default_factory=lambda: ModelFacts(
            "m", "v0001", "", "clicks", (), (), "", {}, "", "", (), ()
        )
    )

    @property
    def is_able(self) -> bool:
        """Whether nobody ended it."""
        return not (self.folder / "dead").exists()

    def predict(self, records: Sequence[Any]) -> list[Outcome]:
        """Return an outcome of each record."""
        return [Outcome(OutcomeKind.PREDICTED, ({"double": 2},)) for _ in records]

    def revive(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _files_app(settings: ServerSettings, folder: Path) -> Any:
    return make_file_server(FileServerSettings(settings, "dc", folder / "dc", is_local=True))


def _predictions_app(settings: ServerSettings, folder: Path) -> Any:
    chosen = ChosenModel(ModelsFolder(folder).model("m"), None, 1)
    service = ServiceSettings(settings, PredictionLimits(10, 1 << 30))
    place = ModelPlace(folder, folder, "m", 1)
    engine: Any = Doubling(folder)
    return _app(chosen, place, engine, service)


def _chunks_app(settings: ServerSettings, folder: Path) -> Any:
    tasks: Any = Tasks(100)
    queue = TaskQueue(folder / "state", tasks, QueueOptions(), time.monotonic)
    return make_master(queue, settings, _Watch(queue, 10.0))


_APPS: Final = {"files": _files_app, "predictions": _predictions_app, "chunks": _chunks_app}


@dataclass
class Door:
    """A running server, and what callers do to it."""

    kind: Kind
    folder: Path
    port: int
    pid: int
    tokens: dict[str, str]

    def trust(self) -> ssl.SSLContext:
        """Return the TLS context of a caller."""
        return ssl.create_default_context(cafile=self.folder / "server.pem")

    def plain(self) -> socket.socket:
        """Return a TCP connection without TLS."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=_SECONDS)

    def tls(self) -> ssl.SSLSocket:
        """Return a connection after its handshake."""
        return self.trust().wrap_socket(self.plain(), server_hostname="localhost")

    def head(self, method: str, path: str, who: str | None, *headers: str) -> bytes:
        """Return the head of a request."""
        lines = [f"{method} {path.format(who=who)} HTTP/1.1", "host: x", *headers]
        if who is not None:
            lines.append(f"authorization: Bearer {self.tokens.get(who, who)}")
        return "\r\n".join([*lines, "", ""]).encode()

    def ask(
        self,
        method: str,
        path: str,
        who: str | None,
        body: bytes = b"",
        *,
        seconds: float = _SECONDS,
    ) -> tuple[int, bytes]:
        """Return status and body of the answer to one request on a connection of its own."""
        connection = http.client.HTTPSConnection(
            "localhost", self.port, timeout=seconds, context=self.trust()
        )
        shown = {} if who is None else {"authorization": f"Bearer {self.tokens.get(who, who)}"}
        kind = {"content-type": "application/json"} if body else {}
        try:
            connection.request(method, path.format(who=who), body, {**kind, **shown})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def look(self, who: str, *, seconds: float = _SECONDS) -> int:
        """Return the status of a look of a caller."""
        return self.ask("GET", self.kind.look, who, seconds=seconds)[0]

    def post(self, who: str) -> int:
        """Return the status of a request with a JSON body."""
        body = json.dumps(self.kind.body).replace("{who}", who).encode()
        return self.ask("POST", self.kind.post, who, body)[0]

    def answered(self, who: str, statuses: Sequence[int] = (200,)) -> float:
        """Return the seconds until a caller, who tries again as clients do, has an answer."""
        begun = time.monotonic()
        while time.monotonic() < begun + _SECONDS:
            try:
                if self.look(who) in statuses:
                    return time.monotonic() - begun
            except OSError:
                pass
            time.sleep(0.05)
        return float("inf")

    def descriptors(self) -> int:
        """Return the number of open descriptors of the server."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def rss_bytes(self) -> int:
        """Return the memory of the server."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))

    def audit(self) -> list[dict[str, Any]]:
        """Return all lines of the audit, the oldest first."""
        path = self.folder / "audit.jsonl"
        full = sorted(
            self.folder.glob("audit.jsonl.*"), key=lambda each: -int(each.suffix.lstrip("."))
        )
        lines = [line for each in (*full, path) for line in each.read_text().splitlines()]
        return [json.loads(line) for line in lines]

    def health(self) -> tuple[int, dict[str, Any]]:
        """Return status and answer of ``/healthz``."""
        status, body = self.ask("GET", "/healthz", None)
        return status, json.loads(body)


@contextmanager
def served(
    name: str,
    folder: Path,
    *,
    nofile: int = 0,
    before: Callable[[], None] = lambda: None,
    **limits: Any,
) -> Iterator[Door]:
    """Run one of the servers.

    Args:
        name: Which.
        folder: An empty folder for its files.
        nofile: Most open files of the process; 0 for those of this one.
        before: Called in the process of the server before it starts.
        limits: Fields of ``Limits``.
    """
    _make_certificate(folder)
    for caller in _CALLERS:
        (folder / "dc" / "home" / caller).mkdir(parents=True)
    (folder / "dc" / "public").mkdir()
    tokens = {each: new_token(folder / "tokens.txt", each, scopes="*") for each in _CALLERS}
    settings = ServerSettings(
        folder / "tokens.txt",
        certificate=folder / "server.pem",
        key=folder / "server.key",
        port_file=folder / "port",
        audit_log=folder / "audit.jsonl",
        limits=Limits(**limits),
    )
    process = multiprocessing.get_context("fork").Process(
        target=_serve, args=(name, folder, settings, nofile, before)
    )
    process.start()
    try:
        while not (folder / "port").exists():
            if not process.is_alive():
                raise RuntimeError(f"the server of {name} did not start")
            time.sleep(0.01)
        port, pid = int((folder / "port").read_text()), process.pid or 0
        yield Door(KINDS[name], folder, port, pid, tokens)
        if not process.is_alive():
            raise RuntimeError(f"the server of {name} ended")
    finally:
        process.kill()
        process.join(60)
        process.close()


def _serve(
    name: str, folder: Path, settings: ServerSettings, nofile: int, before: Callable[[], None]
) -> None:
    if nofile:
        resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))
    before()
    serve(_APPS[name](settings, folder), settings)


def _make_certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "server.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").touch(mode=0o600)
    (folder / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
