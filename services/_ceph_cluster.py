"""A Ceph cluster of one mon, mgr, osd and mds: its creation, and the start of its daemons."""

from __future__ import annotations

import shutil
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from types import MappingProxyType

from services._home import make_private, socket_folder
from services._process import Daemon, ServiceError, run_tool, stop_daemons

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
