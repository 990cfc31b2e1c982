"""Stands between a client and the API server, and does to chosen calls what networks do.

It speaks TLS with the certificate of the cluster, so a kubeconfig that names its port is all that
a client needs. Calls that no fault is meant for reach the real server unchanged; every call is
remembered, with what became of it.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from services.kubernetes import Kubernetes

__all__ = ["Answer", "Call", "DropReply", "FaultProxy", "Hang", "Reset", "ServeEvents"]

_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Answer:
    """The call does not reach the server; this is the reply."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "injected"

    def body(self) -> bytes:
        reason = {429: "TooManyRequests", 410: "Expired", 500: "InternalError"}.get(self.status, "")
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": self.status}
        return json.dumps({**status, "reason": reason, "message": self.message}).encode()


@dataclass(frozen=True)
class Reset:
    """The connection is reset before the call reaches the server."""


@dataclass(frozen=True)
class Hang:
    """The call is taken and nothing ever follows; the client has to give up."""


@dataclass(frozen=True)
class DropReply:
    """The server does what is asked, and the connection is reset before the reply."""


@dataclass(frozen=True)
class ServeEvents:
    """A watch gets these lines, and then its end; the server is not asked."""

    lines: tuple[dict, ...]


Act = Answer | Reset | Hang | DropReply | ServeEvents


@dataclass
class _Rule:
    method: str
    path: re.Pattern[str]
    act: Act
    left: int


@dataclass(frozen=True)
class Call:
    """A call that a client made.

    Attributes:
        method: Of HTTP.
        path: With the query.
        met: The name of the fault, or the status of the server's reply.
    """

    method: str
    path: str
    met: str


class FaultProxy:
    """A proxy for one cluster.

    Args:
        service: The cluster.
        folder: Where kubeconfigs that name the proxy are written.
    """

    def __init__(self, service: Kubernetes, folder: Path):
        self._files = service.files
        self._folder = folder
        self.upstream = urlsplit(service.server)
        self.trust = ssl.create_default_context(cafile=str(self._files.certificate))
        self.calls: list[Call] = []
        self.closing = threading.Event()
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self}))
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.load_cert_chain(self._files.certificate, self._files.key)
        self._server.socket = own.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def kubeconfig(self, account: str) -> Path:
        """A file with which an account calls the server through the proxy."""
        config = json.loads(self._files.kubeconfig(account).read_text())
        token = config["users"][0]["user"]["token"]
        path = self._folder / f"{account}-by-proxy.kubeconfig"
        address = f"https://127.0.0.1:{self._server.server_address[1]}"
        path.write_text(self._files.config_text(token, address))
        return path

    def inject(self, method: str, path: str, act: Act, *, times: int = 1) -> None:
        """Do ``act`` to the next ``times`` calls of a method whose path holds the pattern."""
        with self._lock:
            self._rules.append(_Rule(method, re.compile(path), act, times))

    def taken(self, method: str, path: str) -> Act | None:
        """What is to be done to a call, which uses it up."""
        with self._lock:
            for rule in self._rules:
                if rule.left and rule.method == method and rule.path.search(path):
                    rule.left -= 1
                    return rule.act
        return None

    @property
    def unused(self) -> int:
        """How many faults were injected and met no call."""
        return sum(rule.left for rule in self._rules)

    def close(self) -> None:
        """End the proxy, and calls that hang."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Say nothing of clients that have gone, as those do whose calls hang."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultProxy

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        act = self.proxy.taken(self.command, self.path)
        self._remember(act and type(act).__name__)
        match act:
            case None:
                self._forward(body)
            case Answer():
                self._reply(act.status, act.headers, act.body())
            case Reset():
                self._reset()
            case Hang():
                self.proxy.closing.wait()
                self._reset()
            case DropReply():
                with self._asked(body) as answer:
                    answer.read()
                self._reset()
            case ServeEvents(lines):
                text = "".join(json.dumps(line) + "\n" for line in lines)
                self._reply(200, {"Content-Type": "application/json"}, text.encode())

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 (names of the base)

    def log_message(self, *args):
        """Say nothing."""

    def _remember(self, met: str | None) -> None:
        self.proxy.calls.append(Call(self.command, self.path, met or "forwarded"))

    @contextmanager
    def _asked(self, body: bytes) -> Iterator[http.client.HTTPResponse]:
        """The answer of the real server."""
        target = self.proxy.upstream
        server = http.client.HTTPSConnection(
            target.hostname, target.port, context=self.proxy.trust, timeout=120
        )
        headers = {k: v for k, v in self.headers.items() if k.lower() not in {"host", "connection"}}
        with closing(server):
            server.request(self.command, self.path, body or None, headers)
            with server.getresponse() as answer:
                yield answer

    def _forward(self, body: bytes) -> None:
        with self._asked(body) as answer:
            self._relay(answer)

    def _relay(self, answer: http.client.HTTPResponse) -> None:
        headers = {k: v for k, v in answer.getheaders() if k.lower() not in _HOP}
        if "watch=" not in self.path:
            self._reply(answer.status, headers, answer.read())
            return
        self.send_response(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while block := answer.read1(_BLOCK):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True  # the client has seen enough

    def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        """Close the connection so that the client's system is told, without a word of HTTP."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())
        self.wfile = io.BytesIO()  # what is still flushed goes nowhere
