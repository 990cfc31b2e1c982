"""CephFS: one mon, mgr, osd and mds with cephx, mounted by ceph-fuse."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from services._ceph_cluster import CephCluster
from services._home import default_home, remembered_ports
from services._mounts import answers, unmount
from services._packages import install_packages, packages_unavailable
from services._process import Daemon, stop_daemons, wait_until

_PROGRAMS: Mapping[str, str] = MappingProxyType(
    {
        "ceph": "ceph-common",
        "ceph-fuse": "ceph-fuse",
        "ceph-mds": "ceph-mds",
        "ceph-mgr": "ceph-mgr",
        "ceph-mon": "ceph-mon",
        "ceph-osd": "ceph-osd",
    }
)
_CAP_SYS_ADMIN = 1 << 21


class CephFS:
    """A CephFS with one copy of everything, mounted at :attr:`path`.

    Args:
        home: State directory of the services; that of Ceph is ``<home>/cephfs``.
        ports: ``mon``; chosen and remembered when missing.
        store: Store of the osd's objects. ``memstore`` loses them at the end of the osd, so the
            next start begins with an empty file system; ``bluestore`` keeps them in a file.
    """

    name = "cephfs"
    PORTS: Mapping[str, int] = MappingProxyType({"mon": 16789})

    def __init__(
        self,
        home: Path | None = None,
        *,
        ports: Mapping[str, int] | None = None,
        store: Literal["memstore", "bluestore"] = "memstore",
    ) -> None:
        self.home = (home or default_home()).resolve() / self.name
        self._ports = ports
        self._store = store

    @property
    def ports(self) -> Mapping[str, int]:
        """Name → port, the same at every start of this home."""
        return self._ports or remembered_ports(self.home, self.PORTS)

    @property
    def path(self) -> Path:
        """The mount point of the file system."""
        return self.home / "mnt"

    def unavailable(self) -> str | None:
        """Return why CephFS cannot run here, or None."""
        if os.geteuid() != 0:
            return "only root can mount"
        if not _may_mount():
            return "this root may not mount (no CAP_SYS_ADMIN)"
        if not Path("/dev/fuse").exists():
            return "there is no /dev/fuse"
        return packages_unavailable(_PROGRAMS)

    def install(self) -> None:
        """Install the packages of Ceph that are missing."""
        install_packages(_PROGRAMS)

    def start(self, *, fresh: bool = False) -> None:
        """Start the daemons that do not run; :meth:`wait` mounts the file system."""
        lost = self._store == "memstore" and self._cluster.daemons["osd"].pid() is None
        if fresh or lost or not self._cluster.created:
            self.stop()
            self._cluster.create()
        self._cluster.start()

    def wait(self, timeout_s: float = 60.0) -> None:
        """Wait until the mds is active, then mount the file system at :attr:`path`."""
        daemons = self._cluster.daemons.values()
        wait_until(self._cluster.active, daemons, what="cephfs", timeout_s=timeout_s)
        self.mount(self.path)

    def status(self) -> dict[str, int | None]:
        """Return pids of each daemon and of the client of each mount, by name."""
        clients = {self.path: self._client(self.path), **self._clients()}
        daemons = [*self._cluster.daemons.values(), *clients.values()]
        return {daemon.name: daemon.pid() for daemon in daemons}

    def stop(self) -> None:
        """Unmount everything, then end the daemons."""
        # In this order, because a client waits for a missing mds for ever.
        for path in self._clients():
            self.unmount(path)
        self._cluster.stop()

    def kill(self, daemon: str) -> None:
        """End ``mon``, ``mgr``, ``osd``, ``mds`` or ``fuse`` (the client) with SIGKILL."""
        {**self._cluster.daemons, "fuse": self._client(self.path)}[daemon].kill()

    def exports(self) -> dict[str, str]:
        """Return the variable by which tests find the file system."""
        return {"TEST_CEPHFS_PATH": str(self.path)}

    def mount(self, path: Path, *, client: str = "admin", subdir: str = "/") -> None:
        """Mount the file system at ``path`` with a separate client; again if that has died.

        Args:
            path: Folder, made if it is missing. :meth:`stop` unmounts it.
            client: Account of the client: ``client.<client>`` with the key of that name.
            subdir: Folder of the file system to mount.
        """
        fuse = self._client(path)
        if fuse.pid() is not None and answers(path):
            return
        if fuse.pid() is None and path in self._clients():
            self._evict(path)
        self.unmount(path)
        path.mkdir(parents=True, exist_ok=True)
        self._mounts.mkdir(exist_ok=True)
        (self._mounts / fuse.name).symlink_to(path)
        options = ["-f", "-n", f"client.{client}", "-r", subdir, "-o", "nonempty"]
        fuse.spawn([*self._cluster.command_line("ceph-fuse"), *options, str(path)])
        wait_until(lambda: answers(path), [fuse], what=f"the mount at {path}", timeout_s=30.0)

    def unmount(self, path: Path) -> None:
        """Undo :meth:`mount`; does nothing without a mount at ``path``."""
        fuse = self._client(path)
        unmount(path)
        stop_daemons([fuse], grace_s=5.0)
        (self._mounts / fuse.name).unlink(missing_ok=True)

    def command(self, *arguments: str) -> str:
        """Run ``ceph`` with ``arguments`` as the administrator; return its output."""
        return self._cluster.command(*arguments)

    @cached_property
    def _cluster(self) -> CephCluster:
        return CephCluster(self.home, port=self.ports["mon"], store=self._store)

    @property
    def _mounts(self) -> Path:
        return self.home / "mounts"

    def _clients(self) -> dict[Path, Daemon]:
        """Return mount point → client of the present mounts."""
        links = self._mounts.iterdir() if self._mounts.exists() else ()
        return {(path := link.readlink()): self._client(path) for link in links}

    def _evict(self, path: Path) -> None:
        """End the session of a dead client, whose files would otherwise stay locked for 30 s."""
        for session in json.loads(self.command("tell", "mds.a", "session", "ls")):
            if session["client_metadata"].get("mount_point") == str(path):
                self.command("tell", "mds.a", "session", "evict", f"id={session['id']}")

    def _client(self, path: Path) -> Daemon:
        if path == self.path:
            return Daemon("fuse", self.home)
        return Daemon(f"fuse-{sha256(bytes(path)).hexdigest()[:8]}", self.home)


def _may_mount() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next(line.split()[1] for line in lines if line.startswith("CapEff"))
    return bool(int(effective, 16) & _CAP_SYS_ADMIN)
