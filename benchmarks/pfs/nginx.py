"""nginx with TLS and WebDAV on the loopback, with a configuration of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["nginx_program", "running_nginx"]

_CONFIG = """
user root; worker_processes auto; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; sendfile on; tcp_nopush on; client_max_body_size 0;
  client_body_timeout 600; send_timeout 600;
  client_body_temp_path {temporary}; proxy_temp_path {folder}/1; fastcgi_temp_path {folder}/2;
  uwsgi_temp_path {folder}/3; scgi_temp_path {folder}/4;
  server {{
    listen 127.0.0.1:{port} ssl; ssl_certificate {certificate}; ssl_certificate_key {key};
    ssl_protocols TLSv1.2 TLSv1.3;
    location / {{ root {root}; dav_methods PUT DELETE MKCOL; create_full_put_path on; }}
  }}
}}
"""


def nginx_program(folder: Path) -> str:
    """Return nginx; where it is missing, the package of Debian is unpacked in ``folder``."""
    if (found := shutil.which("nginx")) is not None:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["/usr/bin/apt-get", "-q", "download", "nginx"], cwd=folder, check=True)
    (package,) = folder.glob("nginx_*.deb")
    subprocess.run(["/usr/bin/dpkg", "-x", package, folder / "nginx"], check=True)
    return str(folder / "nginx/usr/sbin/nginx")


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
    raise SystemExit("nginx ended before it answered")


@contextmanager
def running_nginx(
    program: str, folder: Path, root: Path, temporary: Path, certificate: Path, key: Path
) -> Iterator[tuple[str, int]]:
    """Serve ``root`` for the time of the block; yield the address and the number of the process.

    Args:
        program: nginx.
        folder: Folder for its files.
        root: Folder that is served, and written to.
        temporary: Folder of bodies until they are whole, on the file system of ``root``.
        certificate: Certificate of the server.
        key: Its key.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(
        _CONFIG.format(
            folder=folder,
            root=root,
            temporary=temporary,
            certificate=certificate,
            key=key,
            port=port,
        )
    )
    process = subprocess.Popen([program, "-p", folder, "-c", config])
    try:
        _await_port(port, process)
        yield f"https://localhost:{port}", process.pid
    finally:
        process.terminate()
        process.wait(60)
