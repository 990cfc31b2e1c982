"""Fixtures that the tests of users on a real CephFS share."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.cephfs import CephFS
from trainfeed.serving.pfs.ceph import CephProgram, SharedStorage, open_shared_storage
from trainfeed.serving.pfs.users import AddedUser, HomeWish, add_user


@dataclass(frozen=True)
class DataCenter:
    """A data centre of one test module on the CephFS that all tests share."""

    ceph: CephFS
    storage: SharedStorage

    @property
    def conf(self) -> Path:
        return self.ceph.home / "ceph.conf"

    @property
    def options(self) -> list[str]:
        """Options of ``trainfeed pfs user`` for this data centre."""
        name = self.storage.layout.datacenter
        return ["--mount", str(self.ceph.path), "--datacenter", name, "--conf", str(self.conf)]

    def keyring(self, user: str) -> Path:
        """The file in which the programs of Ceph look for the key of a user."""
        return self.ceph.home / "keys" / f"client.{user}.keyring"

    def new_name(self, start: str = "user") -> str:
        return f"{start}-{uuid.uuid4().hex[:8]}"

    def add(self, user: str, **wish: int) -> AddedUser:
        return add_user(self.storage, user, HomeWish(**wish), self.keyring(user))

    def home(self, user: str) -> Path:
        """The home of a user on the administrator's mount."""
        return self.storage.folder(self.storage.layout.home(user))

    def run(self, program: str, *arguments: str, user: str = "admin") -> tuple[int, str]:
        """Run a program of Ceph with the key of a user; return its status and all that it said."""
        done = self._done(program, *arguments, user=user)
        return done.returncode, done.stdout + done.stderr

    def answer(self, program: str, *arguments: str) -> str:
        """Return what a program of Ceph answers; a busy cluster lets it write to stderr, too."""
        done = self._done(program, *arguments, user="admin")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _done(self, program: str, *arguments: str, user: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, "-c", str(self.conf), "-n", f"client.{user}", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def caps(self, user: str) -> dict[str, str]:
        found = self.storage.ceph.json_or_none("auth", "get", f"client.{user}")
        return {} if found is None else found[0]["caps"]


@pytest.fixture(scope="module")
def centre() -> Iterator[DataCenter]:
    """A new data centre, with an administrator's rights."""
    mount = Path(os.environ["TEST_CEPHFS_PATH"])
    ceph = CephFS(mount.parents[1])
    assert ceph.path == mount
    program = CephProgram(ceph.home / "ceph.conf")
    storage = open_shared_storage(program, mount, f"dc-{uuid.uuid4().hex[:8]}")
    centre = DataCenter(ceph, storage)
    yield centre
    marker = f"path=/pfs/{storage.layout.datacenter}/"
    for entity in program.json("auth", "ls")["auth_dump"]:
        if marker in entity["caps"].get("mds", ""):
            program.run("auth", "rm", entity["entity"])
            centre.keyring(entity["entity"].removeprefix("client.")).unlink(missing_ok=True)
    shutil.rmtree(storage.folder(f"/pfs/{storage.layout.datacenter}"))
