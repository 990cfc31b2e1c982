"""CephFS: one mon, mgr, osd and mds with cephx, mounted by ceph-fuse."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Literal

from services._home import default_home, make_private, remembered_ports, socket_folder
from services._packages import install_packages, packages_unavailable
from services._process import Daemon, ServiceError, run_tool, stop_daemons, wait_until

# --- Mounts of FUSE file systems: whether one exists and answers, and its removal


def answers(path: Path) -> bool:
    """Return whether a file system is mounted at ``path`` and reports its size."""
    try:
        return _is_mounted(path) and os.statvfs(path).f_blocks > 0
    except OSError:
        return False


def unmount(path: Path) -> None:
    """Detach the mount at ``path``, even if it is in use or its server has died."""
    if not _is_mounted(path):
        return
    busy = subprocess.run(["umount", path], capture_output=True, check=False).returncode
    if busy:
        subprocess.run(["umount", "-l", path], capture_output=True, check=False)


def _is_mounted(path: Path) -> bool:
    # Not os.path.ismount, which returns False if the server has died.
    points = (line.split()[1] for line in Path("/proc/mounts").read_text().splitlines())
    return str(path) in {point.replace("\\040", " ") for point in points}


# --- A cluster of one mon, mgr, osd and mds

_CONFIG = Path(__file__).parent / "config" / "cephfs" / "ceph.conf"
_IDS: Mapping[str, str] = MappingProxyType({"mon": "a", "mgr": "x", "osd": "0", "mds": "a"})
# An mds needs up to 5 s to sign off from the mon. It can be killed instead: without clients, its
# journal is complete.
_STOP_SIGNALS: Mapping[str, signal.Signals] = MappingProxyType(
    {name: signal.SIGKILL if name == "mds" else signal.SIGTERM for name in _IDS}
)
_ALL = "allow *"
_CAPABILITIES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "mon.a": {"mon": _ALL},
        "client.admin": {"mon": _ALL, "osd": _ALL, "mds": _ALL, "mgr": _ALL},
        "mgr.x": {"mon": "allow profile mgr", "osd": _ALL, "mds": _ALL},
        "osd.0": {"mon": "allow profile osd", "mgr": "allow profile osd", "osd": _ALL},
        "mds.a": {
            "mon": "allow profile mds",
            "mgr": "allow profile mds",
            "osd": "allow rwx",
            "mds": "allow",
        },
    }
)
_FILE_SYSTEM = (
    "osd crush add osd.0 1 root=default",
    "osd pool create metadata 4",
    "osd pool create data 8",
    "fs new cephfs metadata data",
    "fs set cephfs session_timeout 30",  # how long a dead client's files stay locked; the least
)


class CephCluster:
    """The daemons and files of a cluster, without mounts.

    Args:
        home: State directory of the service; keyrings are below ``keys``, for the owner alone.
        port: Port of the mon; the other daemons take free ports from 6800 on.
        store: Object store of the osd, ``memstore`` or ``bluestore``.
    """

    def __init__(self, home: Path, *, port: int, store: str) -> None:
        self._home = home
        self._port = port
        self._store = store
        self.daemons = {name: Daemon(name, home, _STOP_SIGNALS[name]) for name in _IDS}

    @property
    def created(self) -> bool:
        """Whether :meth:`create` has made the cluster."""
        return self._stamp.exists()

    def create(self) -> None:
        """Drop the data, make an empty cluster with a file system, and start it.

        Raises:
            ServiceError: A tool of Ceph failed.
        """
        shutil.rmtree(self._data, ignore_errors=True)
        shutil.rmtree(self._keys, ignore_errors=True)
        for folder in ("mon", "mgr", "osd", "mds", "crash"):
            (self._data / folder).mkdir(parents=True)
        self._keys.mkdir(mode=0o700)
        (self._home / "logs").mkdir(exist_ok=True)
        osd_uuid = str(uuid.uuid4())
        fsid = self._write_config()
        self._make_keys()
        self._make_stores(fsid, osd_uuid)
        self._spawn("mon")
        self._run_commands([f"osd new {osd_uuid} 0", *_FILE_SYSTEM])
        for name in ("osd", "mgr", "mds"):
            self._spawn(name)
        self._stamp.touch()

    def start(self) -> None:
        """Start the daemons that do not run."""
        down = [name for name, daemon in self.daemons.items() if daemon.pid() is None]
        for name in down:
            if name == "mds":
                # For 15 s the mon considers the dead mds alive and active.
                self.command("mds", "fail", _IDS[name])
            self._spawn(name)

    def stop(self) -> None:
        """End the daemons; their clients must be gone."""
        # The mon last: without it, the osd needs 5 s to end.
        mon = self.daemons["mon"]
        stop_daemons(daemon for daemon in self.daemons.values() if daemon is not mon)
        stop_daemons([mon])
        shutil.rmtree(self._sockets, ignore_errors=True)

    def active(self) -> bool:
        """Return whether the mds serves the file system."""
        return "up:active" in self.command("mds", "stat")

    def command(self, *arguments: str) -> str:
        """Run ``ceph`` with ``arguments`` as the administrator; return its output."""
        return run_tool([*self.command_line("ceph"), *arguments], what="cephfs", timeout_s=60.0)

    def command_line(self, program: str) -> list[str]:
        """Return the start of a command line by which ``program`` uses this cluster."""
        return [program, "-c", str(self._home / "ceph.conf")]

    def keyring(self, name: str) -> Path:
        """Return the file with the key of ``name``, for instance ``client.admin``."""
        return self._keys / f"{name}.keyring"

    @property
    def _data(self) -> Path:
        return self._home / "data"

    @property
    def _keys(self) -> Path:
        return self._home / "keys"

    @property
    def _sockets(self) -> Path:
        return socket_folder(self._home / "sockets", "mon.a.asok")

    @property
    def _stamp(self) -> Path:
        return self._data / ".created"

    def _spawn(self, name: str) -> None:
        make_private(self._sockets)
        self.daemons[name].spawn([*self.command_line(f"ceph-{name}"), "-f", "-i", _IDS[name]])

    def _write_config(self) -> str:
        fsid = str(uuid.uuid4())
        values = {"fsid": fsid, "mon": self._port, "store": self._store}
        folders = {
            "data": self._data,
            "keys": self._keys,
            "logs": self._home / "logs",
            "sockets": self._sockets,
        }
        template = Template(_CONFIG.read_text())
        (self._home / "ceph.conf").write_text(template.substitute(values, **folders))
        return fsid

    def _make_keys(self) -> None:
        everyone = str(self._keys / "everyone.keyring")
        tool = ["ceph-authtool", "--gen-key"]
        for name, capabilities in _CAPABILITIES.items():
            caps = [word for what, how in capabilities.items() for word in ("--cap", what, how)]
            keyring = str(self.keyring(name))
            # The mons of a cluster share one key, under a name without an id.
            entity = "mon." if name == "mon.a" else name
            run_tool([*tool, "--create-keyring", keyring, "-n", entity, *caps], what="cephfs")
            create = [] if Path(everyone).exists() else ["--create-keyring"]
            run_tool(
                ["ceph-authtool", *create, everyone, "--import-keyring", keyring], what="cephfs"
            )

    def _make_stores(self, fsid: str, osd_uuid: str) -> None:
        monmap = str(self._data / "monmap")
        address = f"[v2:127.0.0.1:{self._port}]"
        map_options = ["--create", "--fsid", fsid, "--enable-all-features", "--addv", "a", address]
        run_tool(["monmaptool", *map_options, monmap], what="cephfs")
        everyone = str(self._keys / "everyone.keyring")
        mon = [*self.command_line("ceph-mon"), "--mkfs", "-i", "a", "--monmap", monmap]
        run_tool([*mon, "--keyring", everyone], what="cephfs")
        osd = [*self.command_line("ceph-osd"), "--mkfs", "-i", "0", "--osd-uuid", osd_uuid]
        run_tool([*osd, "--no-mon-config"], what="cephfs")

    def _run_commands(self, commands: Sequence[str]) -> None:
        # One interactive client for all commands, because each start of it takes 0.2 s.
        done = subprocess.run(
            self.command_line("ceph"),
            input="\n".join(commands),
            capture_output=True,
            text=True,
            timeout=60.0,
            check=False,
        )
        said = done.stdout + done.stderr
        if done.returncode or "Error " in said:
            raise ServiceError(f"cephfs: the cluster refused a command\n{said}")


# --- The service

# Program → package of Debian with it.
PROGRAMS: Mapping[str, str] = MappingProxyType(
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
        return packages_unavailable(PROGRAMS)

    def install(self) -> None:
        """Install the packages of Ceph that are missing."""
        install_packages(PROGRAMS)

    def start(self, *, fresh: bool = False) -> None:
        """Start the daemons that do not run; :meth:`wait` mounts the file system."""
        lost = self._store == "memstore" and self._cluster.daemons["osd"].pid() is None
        if fresh or lost or not self._cluster.created:
            self.stop()
            self._cluster.create()
        self._cluster.start()

    def wait(self, timeout_s: float = 180.0) -> None:
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
        wait_until(lambda: answers(path), [fuse], what=f"the mount at {path}", timeout_s=180.0)

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
