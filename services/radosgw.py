"""The object store of Ceph, radosgw, over a cluster of its own.

Debian's Ceph 16 obeys the condition of a PutObject and ignores that of an upload in parts, so it
stands for all servers that do not have what the newest of them has.
"""

from __future__ import annotations

import base64
import hmac
import http.client
import json
import shutil
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final

from services._home import make_private
from services._http_service import HttpService
from services._packages import install_packages, packages_unavailable
from services._process import Daemon, ServiceError, run_tool
from services.cephfs import PROGRAMS as CLUSTER_PROGRAMS
from services.cephfs import CephCluster

_NAME: Final = "client.rgw.a"
_PROGRAMS: Final = MappingProxyType({**CLUSTER_PROGRAMS, "radosgw": "radosgw"})
_USER: Final = ("user", "create", "--uid=tests", "--display-name=tests")


class RadosGw(HttpService):
    """A server of objects with one account, on the loopback alone; a restart begins empty.

    Args:
        home: State directory of the services; that of this one is ``<home>/radosgw``.
    """

    name = "radosgw"
    PORTS: ClassVar[Mapping[str, int]] = MappingProxyType({"mon": 16790, "radosgw": 17071})
    HEALTH = "/"
    START_S = 180.0
    BUCKET: Final = "tests"

    def unavailable(self) -> str | None:
        """Return what is missing to run the server here, or None."""
        return packages_unavailable(_PROGRAMS)

    def install(self) -> None:
        """Install the packages of Ceph that are missing."""
        install_packages(_PROGRAMS)

    def _spawn(self) -> None:
        """Start cluster and server, and make its account."""
        make_private(self.home)
        # Its objects are in memory alone, and were lost with the last osd.
        self._cluster.stop()
        self._cluster.create()
        capabilities = ["mon", "allow rw", "osd", "allow rwx"]
        made = self._cluster.command("auth", "get-or-create", _NAME, *capabilities)
        self._cluster.keyring(_NAME).write_text(made)
        self._cluster.keyring(_NAME).chmod(0o600)
        keys = json.loads(self._tool("radosgw-admin", *_USER))["keys"][0]
        new = self._keys_file.with_suffix(".tmp")
        new.touch(0o600)
        new.write_text(f"{keys['access_key']} {keys['secret_key']}")
        new.replace(self._keys_file)
        options = ["-n", _NAME, "-f", "--rgw-frontends", f"beast endpoint={self.address}"]
        self._daemon.spawn([*self._cluster.command_line("radosgw"), *options])

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until the server answers, and make its bucket."""
        super().wait(timeout_s)
        status, said = self.ask("PUT", f"/{self.BUCKET}")
        if status != http.client.OK:
            raise ServiceError(f"{self.name}: expected a new bucket, got {status}: {said}")

    def stop(self) -> None:
        """End server and cluster; the objects are lost."""
        super().stop()
        self._cluster.stop()
        shutil.rmtree(self._cluster_home, ignore_errors=True)

    def _forget(self) -> None:
        """Its objects were lost with the cluster."""

    def _daemons(self) -> Sequence[Daemon]:
        return [self._daemon, *self._cluster.daemons.values()]

    def keys(self) -> tuple[str, str]:
        """Return the access key and the secret key of this start."""
        access, secret = self._keys_file.read_text().split()
        return access, secret

    def exports(self) -> dict[str, str]:
        """Return the variables of its clients."""
        access, secret = self.keys()
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": access,
            "AWS_SECRET_ACCESS_KEY": secret,
        }

    @property
    def _keys_file(self) -> Path:
        return self.home / "keys"

    @property
    def _cluster_home(self) -> Path:
        return self.home / "cluster"

    @property
    def _cluster(self) -> CephCluster:
        make_private(self._cluster_home)
        return CephCluster(self._cluster_home, port=self.ports["mon"], store="memstore")

    def _tool(self, program: str, *arguments: str) -> str:
        command = [*self._cluster.command_line(program), *arguments]
        return run_tool(command, what=self.name, timeout_s=120.0)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
        """Send a request that is signed as the first version of the protocol does.

        Args:
            method: ``GET``, ``PUT`` or ``POST``.
            path: Bucket and key, with ``uploads``, ``partNumber``, ``uploadId`` as its query.
            body: What is sent.
            headers: More headers, ``_`` for ``-``.

        Returns:
            Status, and the start of the answer; its entity tag if it has no body.
        """
        access, secret = self.keys()
        date = formatdate(usegmt=True)
        text = f"{method}\n\n\n{date}\n{path}"
        digest = hmac.digest(secret.encode(), text.encode(), "sha1")
        signed = f"AWS {access}:{base64.b64encode(digest).decode()}"
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self.address, timeout=10)
        try:
            all_headers = {"Date": date, "Authorization": signed, **more}
            connection.request(method, path, body, all_headers)
            answer = connection.getresponse()
            said = answer.read(1000).decode(errors="replace")
            return answer.status, said or (answer.getheader("ETag") or "")
        finally:
            connection.close()
