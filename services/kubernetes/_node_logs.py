"""Serves the logs of pods to the API server, as a kubelet does."""

from __future__ import annotations

import ssl
import threading
import urllib.parse
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

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
