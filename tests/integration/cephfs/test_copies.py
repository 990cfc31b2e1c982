"""``trainfeed pfs cp`` on a real CephFS: kills, an observer on a second mount, a full quota."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.cephfs import CephFS
from trainfeed.serving.pfs.tree import CHUNK_BYTES, is_unfinished_name

REPOSITORY = Path(__file__).parents[3]
MIB = 1 << 20
LARGE_BYTES = 48 * MIB + 5


@pytest.fixture(scope="module")
def cephfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CephFS]:
    cephfs = CephFS(tmp_path_factory.mktemp("services"))
    cephfs.start()
    cephfs.wait()
    cephfs.mount(cephfs.home / "second")
    yield cephfs
    cephfs.stop()


class User:
    """A user with a home on the first mount, who runs commands in a folder of this machine."""

    def __init__(self, mount: Path, account: Path) -> None:
        self.home = mount / "home/alice"
        self.work = account / "work"
        for folder in (self.home, mount / "public", account / ".trainfeed", self.work):
            folder.mkdir(parents=True, exist_ok=True)
        config = account / ".trainfeed/config"
        centre = {"name": "dc1", "username": "alice", "mount": str(mount)}
        config.write_text(json.dumps({"datacenters": [centre]}))
        config.chmod(0o600)
        path = f"{REPOSITORY / 'include'}:{REPOSITORY}"
        self.env = {**os.environ, "HOME": str(account), "PYTHONPATH": path}

    def begin(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "trainfeed", "pfs", *arguments]
        return subprocess.Popen(
            command,
            cwd=self.work,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **env: str) -> tuple[int, str, str]:
        process = self.begin(*arguments, **env)
        output, messages = process.communicate()
        return process.returncode, output, messages


@pytest.fixture
def user(cephfs: CephFS, tmp_path: Path) -> Iterator[User]:
    user = User(cephfs.path / "dc1", tmp_path)
    yield user
    subprocess.run(["rm", "-rf", str(cephfs.path / "dc1")], check=True)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Observer:
    """Looks at one name through a second mount again and again; every content must be whole."""

    def __init__(self, path: Path, whole: str) -> None:
        self.looks, self.wrong = 0, 0
        self._path, self._whole = path, whole
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._ends.is_set():
            try:
                found = sha256(self._path)
            except FileNotFoundError:
                found = self._whole
            self.looks += 1
            self.wrong += found != self._whole

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


@pytest.mark.nightly
def test_kills_at_any_time_leave_no_file_or_all_of_it_and_what_was_sent_stays(
    cephfs: CephFS, user: User
) -> None:
    """SIGKILL at random times, under an observer on a second mount; each try goes on."""
    (user.work / "a").write_bytes(os.urandom(LARGE_BYTES))
    whole = sha256(user.work / "a")
    second = cephfs.home / "second/dc1/home/alice/a"
    moments = random.Random(1)
    with Observer(second, whole) as observer:
        for _ in range(5):
            process = user.begin("cp", "--limit-rate", "40MiB", "a", "pfs://home/a")
            unfinished = next_unfinished(user.home, process)
            size = unfinished.stat().st_size if unfinished else 0
            goal = size + moments.randrange(1, 6) * CHUNK_BYTES
            while process.poll() is None and unfinished and size_of(unfinished) < goal:
                threading.Event().wait(0.01)
            process.send_signal(signal.SIGKILL)
            process.communicate()
    status, output, messages = user.run("cp", "--json", "a", "pfs://home/a")
    assert (status, messages) == (0, "")
    assert sha256(second) == whole
    assert [path.name for path in user.home.iterdir()] == ["a"]
    assert json.loads(output)["sent_bytes"] < LARGE_BYTES
    assert observer.looks > 5
    assert observer.wrong == 0


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return LARGE_BYTES


def next_unfinished(home: Path, process: subprocess.Popen[str]) -> Path | None:
    """Wait for the unfinished file of a copy, or for its end."""
    while process.poll() is None:
        for path in home.iterdir():
            if is_unfinished_name(path.name):
                return path
        threading.Event().wait(0.01)
    return None


@pytest.mark.parametrize("point", ["chunk_7", "before_name"])
def test_a_kill_at_a_step_is_resumed_without_sending_again(user: User, point: str) -> None:
    (user.work / "a").write_bytes(os.urandom(LARGE_BYTES))
    arguments = ("cp", "--threads", "1", "a", "pfs://home/a")
    status, _, _ = user.run(*arguments, TRAINFEED_FAULTS=f"pfs.{point}:kill")
    assert status == -signal.SIGKILL
    assert not (user.home / "a").exists()
    status, output, _ = user.run("cp", "--json", "a", "pfs://home/a")
    done = int(point.removeprefix("chunk_")) + 1 if point.startswith("chunk_") else 13
    assert (status, json.loads(output)["sent_bytes"]) == (
        0,
        max(0, LARGE_BYTES - done * CHUNK_BYTES),
    )
    assert sha256(user.home / "a") == sha256(user.work / "a")


@pytest.mark.nightly
def test_a_folder_appears_whole_on_another_mount_after_kills_at_every_step(
    cephfs: CephFS, user: User
) -> None:
    (user.work / "folder/inner").mkdir(parents=True)
    (user.work / "folder/inner/large").write_bytes(os.urandom(9 * MIB))
    for number in range(100):
        (user.work / f"folder/{number}").write_bytes(os.urandom(number))
    second = cephfs.home / "second/dc1/home/alice/folder"
    for point in ("small_compared", "chunk_1", "folder_before_name"):
        # One thread, so that the first kills come before the last file.
        arguments = ("cp", "-r", "--threads", "1", "folder", "pfs://home")
        status, _, _ = user.run(*arguments, TRAINFEED_FAULTS=f"pfs.{point}:kill")
        assert status == -signal.SIGKILL
        assert not second.exists()
    status, output, _ = user.run("cp", "-r", "--json", "folder", "pfs://home")
    assert (status, json.loads(output)["sent_bytes"]) == (0, 0)
    assert user.run("verify", "folder", "pfs://home/folder")[0] == 0
    assert len(list(second.iterdir())) == 101


def test_a_full_quota_is_one_message_and_the_copy_goes_on_when_it_is_raised(user: User) -> None:
    (user.work / "a").write_bytes(os.urandom(LARGE_BYTES))
    os.setxattr(user.home, "ceph.quota.max_bytes", str(16 * MIB).encode())
    status, _, messages = user.run("cp", "a", "pfs://home/a")
    assert status == 1
    assert len(messages.splitlines()) == 1
    assert "what was sent is kept" in messages
    assert not (user.home / "a").exists()
    os.setxattr(user.home, "ceph.quota.max_bytes", b"0")
    status, output, _ = user.run("cp", "--json", "a", "pfs://home/a")
    assert status == 0
    assert 0 < json.loads(output)["sent_bytes"] < LARGE_BYTES
    assert sha256(user.home / "a") == sha256(user.work / "a")


def test_two_mounts_do_not_copy_one_source_to_one_name_at_once(
    cephfs: CephFS, user: User, tmp_path: Path
) -> None:
    (user.work / "a").write_bytes(os.urandom(LARGE_BYTES))
    process = user.begin(
        "cp", "--threads", "1", "a", "pfs://home/a", TRAINFEED_FAULTS="pfs.chunk_0:stop"
    )
    assert next_unfinished(user.home, process)
    while "T" not in Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]:
        threading.Event().wait(0.01)
    other = User(cephfs.home / "second/dc1", tmp_path / "other")
    status, _, messages = other.run("cp", str(user.work / "a"), "pfs://home/a")
    assert (status, "another copy" in messages) == (1, True)
    process.send_signal(signal.SIGCONT)
    process.communicate()
    assert process.returncode == 0
    assert sha256(user.home / "a") == sha256(user.work / "a")


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_polite_signal_ends_a_copy_at_the_next_chunk_and_keeps_what_was_sent(
    user: User, number: int
) -> None:
    (user.work / "a").write_bytes(os.urandom(LARGE_BYTES))
    process = user.begin("cp", "--limit-rate", "8MiB", "a", "pfs://home/a")
    assert next_unfinished(user.home, process)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == 128 + number
    (unfinished,) = user.home.iterdir()
    assert is_unfinished_name(unfinished.name)
    assert user.run("cp", "a", "pfs://home/a")[0] == 0
    assert [path.name for path in user.home.iterdir()] == ["a"]
