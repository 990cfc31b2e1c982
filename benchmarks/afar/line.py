"""The line: a server of files that is not Python, and ``proxy.c`` between it and the reader.

Servers are nginx with TLS, as a root behind ``https://`` is served, and versitygw, as a bucket is.
Both give the folder of the set; ``Line.num_bytes`` is what came through, whoever asked for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.pfs.nginx import nginx_program
from services.s3 import S3

LINE_PORT: Final = 26642
HTTPS_PORT: Final = 26641
BUCKET: Final = S3.BUCKET
HERE: Final = Path(__file__).resolve().parent
NGINX: Final = """
user root; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 2;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; keepalive_requests 1000000;
  client_body_temp_path {folder}/tmp; proxy_temp_path {folder}/tmp; fastcgi_temp_path {folder}/tmp;
  uwsgi_temp_path {folder}/tmp; scgi_temp_path {folder}/tmp;
  server {{
    listen 127.0.0.1:{port} ssl; root {folder}/sets;
    ssl_certificate {folder}/certificate.pem; ssl_certificate_key {folder}/key.pem;
  }}
}}
"""


class Server:
    """What gives the files: its port, and how curl asks for one of them at the end of the line.

    Attributes:
        port: Where it listens.
        first: The address at the end of the line, before the names of files.
        options: Lines of a configuration of curl: who asks.
    """

    def __init__(self, port: int, first: str, options: list[str]) -> None:
        self.port, self.first, self.options = port, first, options


@contextmanager
def https_server(folder: Path) -> Iterator[Server]:
    """Serve ``folder/sets`` by nginx, with TLS."""
    (folder / "tmp").mkdir(exist_ok=True)
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30"
    command += " -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    places = ["-keyout", f"{folder}/key.pem", "-out", f"{folder}/certificate.pem"]
    subprocess.run([*command.split(), *places], check=True, capture_output=True)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=HTTPS_PORT))
    os.environ["TRAINFEED_CA_FILE"] = f"{folder}/certificate.pem"
    program = nginx_program(Path(".services/nginx").absolute())
    with _running(program, "-c", f"{folder}/nginx.conf", "-p", str(folder)):
        options = [f'cacert = "{folder}/certificate.pem"']
        yield Server(HTTPS_PORT, f"https://localhost:{LINE_PORT}", options)


@contextmanager
def s3_server(folder: Path) -> Iterator[Server]:
    """Serve a bucket by versitygw; clients find keys and the end of the line in the environment."""
    service = S3(folder / "services")
    service.install()
    service.start()
    try:
        service.wait()
        access, secret = service.keys()
        address = f"http://127.0.0.1:{LINE_PORT}"
        os.environ |= {"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret}
        # The second name is that of MosaicML Streaming.
        os.environ |= {"AWS_ENDPOINT_URL": address, "S3_ENDPOINT_URL": address}
        os.environ |= {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
        options = [f'user = "{access}:{secret}"', 'aws-sigv4 = "aws:amz:us-east-1:s3"']
        options.append('header = "x-amz-content-sha256: UNSIGNED-PAYLOAD"')
        yield Server(service.ports["s3"], f"{address}/{BUCKET}", options)
    finally:
        service.stop()


class Line:
    """A way to a server with latency, a cap, and a count of what came through.

    Args:
        server: The server.
        counter: The file in which the line counts.
    """

    def __init__(self, server: Server, counter: Path) -> None:
        self.server, self.counter = server, counter
        self._count = np.memmap(counter, np.uint64, "r", shape=(1,))

    @property
    def num_bytes(self) -> int:
        """Bytes that came from the server so far, heads of answers included."""
        return int(self._count[0])

    def fetch_plainly(self, prefix: str, files: dict[str, int], connections: int) -> float:
        """Return bytes per second of curl over files, by so many connections at once."""
        names = sorted(files)
        start_s = time.perf_counter()
        processes = []
        for mine in filter(None, (names[first::connections] for first in range(connections))):
            urls = [f'url = "{self.server.first}/{prefix}/{name}"' for name in mine]
            lines = ["silent", "show-error", "fail", *self.server.options, *urls]
            lines += ['output = "/dev/null"'] * len(urls)
            # Not arguments, which everybody sees: the keys are among them.
            config = self.counter.with_name(f"curl-{len(processes)}")
            config.touch(0o600)
            config.write_text("\n".join(lines))
            command = ["curl", "-K", str(config)]
            processes.append(subprocess.Popen(command))
        if any(process.wait() for process in processes):
            raise SystemExit("curl failed")
        return sum(files.values()) / (time.perf_counter() - start_s)


@contextmanager
def line_to(server: Server, folder: Path, latency_ms: float, cap_mb: float) -> Iterator[Line]:
    """Start the line to a server."""
    proxy, counter = folder / "proxy", folder / "count"
    compiler = ["gcc", "-O2", "-pthread", "-o", str(proxy), str(HERE / "proxy.c")]
    subprocess.run(compiler, check=True)
    delay_us, rate = int(latency_ms * 500), int(cap_mb * 1e6)
    ports = str(LINE_PORT), str(server.port)
    with _running(str(proxy), *ports, str(delay_us), str(rate), str(counter)):
        yield Line(server, counter)


@contextmanager
def _running(*command: str) -> Iterator[None]:
    """Run a program, and end it."""
    process = subprocess.Popen(command)
    try:
        time.sleep(0.5)
        if process.poll() is not None:
            raise SystemExit(f"{command[0]} ended with {process.returncode}")
        yield
    finally:
        process.terminate()
        process.wait()


def drop(folder: Path) -> None:
    """Remove a cache."""
    shutil.rmtree(folder, ignore_errors=True)
