"""A small server of the tests: the files of a folder over TLS on the loopback, with ranges."""

from __future__ import annotations

import re
import ssl
import subprocess
import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class _Files(BaseHTTPRequestHandler):
    """Gives files and ranges of them; ``server.answer`` may answer instead."""

    protocol_version = "HTTP/1.1"

    def __init__(self, folder, *args):
        self.folder = folder
        super().__init__(*args)

    def do_HEAD(self):
        self._give(with_body=False)

    def do_GET(self):
        self._give(with_body=True)

    def log_message(self, *_):
        pass

    def _give(self, *, with_body):
        path = self.folder / unquote(self.path).lstrip("/")
        found = self.headers.get("Range")
        self.server.asked.append((self.command, self.path, found))
        for answer in list(self.server.answers):
            status = answer(self)
            if status is not None:
                return self._end(status)
        if not path.is_file():
            return self._end(404)
        data = path.read_bytes()
        tag = f'"{path.stat().st_mtime_ns}-{len(data)}"'
        if self.headers.get("If-Match", tag) != tag:
            return self._end(412)
        headers = {"ETag": tag, "Accept-Ranges": "bytes"}
        if found is None:
            return self._end(200, headers, data, with_body=with_body)
        start, last = map(int, _RANGE.fullmatch(found).groups())
        part = data[start : last + 1]
        headers["Content-Range"] = f"bytes {start}-{start + len(part) - 1}/{len(data)}"
        return self._end(206, headers, part, with_body=with_body)

    def _end(self, status, headers=(), data=b"", *, with_body=True):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if with_body:
            self.wfile.write(data)


def make_certificate(folder):
    """Make a key and a certificate for the loopback that signs itself; return the certificate."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
    command += ["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate


@contextmanager
def tls_files(folder, secrets):
    """Serve a folder; yield the server, with ``uri``, ``certificate``, ``asked`` and ``answers``.

    ``asked`` has method, path and range of every request. ``answers`` are functions of the handler
    that return a status to give instead of a file, or None.
    """
    secrets.mkdir(parents=True, exist_ok=True)
    certificate = make_certificate(secrets)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, folder))
    server.daemon_threads = True
    server.asked, server.answers = [], []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, secrets / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.uri = f"https://127.0.0.1:{server.server_address[1]}"
    server.certificate = certificate
    thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
