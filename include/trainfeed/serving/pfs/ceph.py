"""Shared storage as an administrator sees it: program ``ceph``, layout, attributes of folders."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.core.datacenters import PfsPath
from trainfeed.core.printable_text import printable
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    NotFoundError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files import os_errors

# --- Runs the program ``ceph``: arguments as a list, a time limit, errors as those of trainfeed

_TAIL_CHARS: Final = 300


@dataclass(frozen=True)
class CephProgram:
    """The program ``ceph`` with the rights of an administrator.

    Attributes:
        conf: The cluster's configuration; None for the one that ``ceph`` finds by itself.
        client: Name of the administrator's key, without ``client.``.
        timeout_s: Longest time of one command, in seconds.
    """

    conf: Path | None = None
    client: str = "admin"
    timeout_s: float = 60.0

    def json(self, *arguments: str) -> Any:
        """Run a command and return its output, parsed; raises as :meth:`run` does."""
        output = self.run(*arguments, "--format=json")
        try:
            return json.loads(output)
        except ValueError as error:
            # The output may hold keys, so the message does not repeat it.
            raise StorageError(
                f"expected JSON from {_shown(arguments)}, got {len(output)} characters that are"
                " none; this version of ceph is not known to work"
            ) from error

    def json_or_none(self, *arguments: str) -> Any:
        """Run a command about one thing; return None if the cluster says that it does not exist."""
        try:
            return self.json(*arguments)
        except NotFoundError:
            return None

    def run(self, *arguments: str) -> str:
        """Run a command to its end and return its output.

        Raises:
            ConfigError: The program is not installed, or the configuration is missing.
            AccessDeniedError: The key of the administrator does not allow the command.
            NotFoundError: The cluster does not have what the command names.
            StorageError: The cluster did not answer in time, or refused for another reason.
        """
        done = self._ended(arguments)
        if done.returncode:
            raise _refusal(arguments, done)
        return done.stdout

    def _ended(self, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        conf = () if self.conf is None else ("--conf", str(self.conf))
        wait_s = f"--connect-timeout={max(1, round(self.timeout_s / 2))}"
        command = ["ceph", *conf, "--name", f"client.{self.client}", wait_s, *arguments]
        try:
            return subprocess.run(  # noqa: S603 (a list, without a shell)
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=self.timeout_s,
                check=False,
            )
        except FileNotFoundError as error:
            raise ConfigError(
                "expected the program ceph, found none; nothing was changed; install ceph-common"
                " on this machine"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise _outage(arguments, f"no answer in {self.timeout_s:g} s") from error


def _refusal(arguments: tuple[str, ...], done: subprocess.CompletedProcess[str]) -> Exception:
    """Return the error of a command.

    ``ceph`` ends with the errno of the cluster's answer, and with 1 if it cannot connect.
    """
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    said = printable(lines[-1] if lines else f"status {done.returncode}")[-_TAIL_CHARS:]
    message = f"{_shown(arguments)}: {said}"
    if "timed out" in said:
        return _outage(arguments, said)
    if done.returncode == errno.EACCES or "permission" in said.lower() or "EPERM" in said:
        return AccessDeniedError(f"{message}; name a key of an administrator by --client")
    if done.returncode == errno.ENOENT:
        return NotFoundError(message)
    return StorageError(f"{message}; look at the health of the cluster, then run the command again")


def _outage(arguments: tuple[str, ...], said: str) -> StorageError:
    error = StorageError(
        f"{_shown(arguments)}: {said}; the cluster may have done it; run the same command again"
        " when the cluster answers: it goes on from what is there"
    )
    error.is_outage = True
    return error


def _shown(arguments: tuple[str, ...]) -> str:
    return printable(" ".join(("ceph", *arguments)))[:_TAIL_CHARS]


# --- Where homes and public files lie: paths inside the file system, and namespaces of objects


@dataclass(frozen=True)
class Layout:
    """Paths and namespaces of one data centre on one CephFS.

    Attributes:
        file_system: Name of the CephFS.
        datacenter: Name of the data centre.
    """

    file_system: str
    datacenter: str

    @property
    def public(self) -> str:
        """Path of the public folder."""
        return str(PfsPath(self.datacenter, "public", None, ()))

    @property
    def public_namespace(self) -> str:
        """Namespace of the objects of public files, which every user may read."""
        return self.public.removeprefix("/")

    @property
    def homes(self) -> str:
        """Path of the folder of all homes."""
        return f"{self.public.removesuffix('/public')}/home"

    def home(self, user: str) -> str:
        """Path of a user's home."""
        return str(PfsPath(self.datacenter, "home", user, ()))

    def new_namespace(self, user: str) -> str:
        """Return a namespace for a new home of a user, different at every call.

        A user of a name that another had before must not read objects that were left behind.
        """
        return f"{self.home(user).removeprefix('/')}.{secrets.token_hex(4)}"

    def is_namespace(self, user: str, namespace: str) -> bool:
        """Whether a namespace was made for a home of this user."""
        start = re.escape(self.home(user).removeprefix("/"))
        return re.fullmatch(rf"{start}\.[0-9a-f]{{8}}", namespace) is not None


# --- Attributes of folders on a mounted CephFS: namespace of new objects, quotas, use

QUOTA_BYTES: Final = "ceph.quota.max_bytes"
QUOTA_FILES: Final = "ceph.quota.max_files"


def attribute(folder: Path, name: str) -> str:
    """Return an attribute; empty if the folder has none of its own.

    Raises:
        StorageError: The folder cannot be asked.
    """
    with os_errors(folder):
        try:
            return os.getxattr(folder, name, follow_symlinks=False).decode()
        except OSError as error:
            if error.errno == errno.ENODATA:
                return ""
            raise


def number(folder: Path, name: str) -> int:
    """Return an attribute that is a number; 0 if the folder has none of its own."""
    return int(attribute(folder, name) or 0)


def set_attribute(folder: Path, name: str, value: str) -> None:
    """Set an attribute and read it back.

    Raises:
        StorageError: The mount refused, or shows another value afterwards.
    """
    with os_errors(folder):
        os.setxattr(folder, name, value.encode(), follow_symlinks=False)
    # A quota of 0 is none.
    found = attribute(folder, name)
    if (found or "0") != (value or "0"):
        raise StorageError(
            f"expected {name}={value} of {folder} after it was set, got {found!r}; run the same"
            " command again"
        )


def cluster_id(mount: Path) -> str:
    """Return the id of the cluster whose file system is mounted.

    Raises:
        UnsuitableStoreError: The folder is not on a CephFS.
    """
    with suppress(StorageError):
        if found := attribute(mount, "ceph.cluster_fsid"):
            return found
    raise UnsuitableStoreError(
        f"expected a mounted CephFS at {mount}, got another folder; nothing was changed; mount the"
        " file system with an administrator's key, and name the mount by --mount"
    )


# --- Shared storage as an administrator sees it: the cluster, its mounted file system, the layout


@dataclass(frozen=True)
class SharedStorage:
    """One data centre on one CephFS, with an administrator's rights.

    Attributes:
        ceph: The program that talks to the cluster.
        mount: Folder on which the root of the file system is mounted.
        layout: Paths and namespaces.
        ranks: Numbers of the metadata servers that serve the file system.
    """

    ceph: CephProgram
    mount: Path
    layout: Layout
    ranks: tuple[int, ...]

    def folder(self, path: str) -> Path:
        """Return the folder of this machine for a path inside the file system."""
        return self.mount / path.removeprefix("/")

    def mds(self, rank: int) -> str:
        """Return the name of a metadata server for ``ceph tell``."""
        return f"mds.{self.layout.file_system}:{rank}"

    def require_path(self, path: str) -> None:
        """Compare the path of a mounted folder with the one that the metadata servers know.

        Raises:
            UnsuitableStoreError: The mount does not begin at the root of the file system, so caps
                for the path would give access to another folder.
            StorageError: No metadata server knows the folder.
        """
        folder = self.folder(path)
        with os_errors(folder):
            inode = folder.stat().st_ino
        for rank in self.ranks:
            found = self.ceph.json_or_none("tell", self.mds(rank), "dump", "inode", str(inode))
            if found is not None:
                return self._compare(path, found["path"])
        raise StorageError(f"no metadata server knows {folder}; run the same command again")

    def _compare(self, path: str, found: str) -> None:
        if found != path:
            raise UnsuitableStoreError(
                f"expected the root of the file system mounted at {self.mount}, got a folder below"
                f" it: {self.folder(path)} is {found} there; no key was made or changed; mount the"
                " root, name the mount by --mount, and remove the empty folder"
            )


def open_shared_storage(
    ceph: CephProgram, mount: Path, datacenter: str, file_system: str | None = None
) -> SharedStorage:
    """Return shared storage after a comparison of the mount with the cluster.

    Args:
        ceph: The program that talks to the cluster.
        mount: Folder on which the root of the file system is mounted with full rights.
        datacenter: Name of the data centre.
        file_system: Name of the CephFS; None if the cluster has one only.

    Raises:
        ConfigError: The data centre's name is wrong, or the file system is not named clearly.
        UnsuitableStoreError: The mount is no CephFS, or one of another cluster.
        StorageError: The cluster did not answer.
    """
    maps = {each["mdsmap"]["fs_name"]: each["mdsmap"] for each in _file_systems(ceph)}
    name = _chosen(maps, file_system)
    mounted, expected = cluster_id(mount), ceph.run("fsid").strip()
    if mounted != expected:
        raise UnsuitableStoreError(
            f"expected a file system of the cluster {expected} at {mount}, got one of {mounted};"
            " nothing was changed; name the right mount by --mount, or its cluster by --conf"
        )
    layout = Layout(name, datacenter)
    _ = layout.public  # raises for a wrong name of the data centre
    return SharedStorage(ceph, mount, layout, tuple(maps[name]["in"]))


def _file_systems(ceph: CephProgram) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = ceph.json("fs", "dump")["filesystems"]
    return found


def _chosen(maps: Mapping[str, object], wanted: str | None) -> str:
    names = ", ".join(sorted(maps)) or "none"
    if wanted is None and len(maps) == 1:
        return next(iter(maps))
    if wanted is None or wanted not in maps:
        raise ConfigError(
            f"expected one of the file systems of the cluster ({names}), got {wanted or 'none'};"
            " nothing was changed; name one by --file-system"
        )
    return wanted
