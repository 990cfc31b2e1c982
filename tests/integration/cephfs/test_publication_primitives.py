"""The operations that publication relies on, tried on a real CephFS.

``TEST_CEPHFS_SECOND_PATH`` may name the folder of ``TEST_CEPHFS_PATH`` on a second mount; half of
the racers then use that one. Without it all of them share the first.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.files.stores.file_system_behaviour import RenamingBehaviour
from tests.unit.files.stores.racing import race_creations, race_renames
from trainfeed.errors import (
    ConflictError,
    QuotaExceededError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files.stores import Location, posix

MIB = 1 << 20


@pytest.fixture
def roots() -> Iterator[list[Path]]:
    """An empty folder of nobody else, as each mount sees it."""
    first = Path(os.environ["TEST_CEPHFS_PATH"])
    second = Path(os.environ.get("TEST_CEPHFS_SECOND_PATH", first))
    name = f"trainfeed-test-{uuid.uuid4()}"
    (first / name).mkdir()
    yield [first / name, second / name]
    shutil.rmtree(first / name)


@pytest.fixture
def root(roots: list[Path]) -> Path:
    return roots[0]


class TestFileSystemOnCephFS(RenamingBehaviour):
    @pytest.fixture
    def folder(self, root: Path) -> Location:
        return Location.parse(str(root))


def set_quota(folder: Path, max_bytes: int) -> None:
    os.setxattr(folder, "ceph.quota.max_bytes", str(max_bytes).encode())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_cephfs_passes_the_probe(root: Path) -> None:
    for name in ("staging", "versions"):
        (root / name).mkdir()
    posix.probe(root)
    posix.probe(root / "staging", into=root / "versions")
    assert names(root) == ["staging", "versions"]
    assert names(root / "staging") == names(root / "versions") == []


def test_a_quota_of_its_own_fails_the_probe(root: Path) -> None:
    """CE-14."""
    for name in ("staging", "versions"):
        (root / name).mkdir()
    set_quota(root / "versions", 100 * MIB)
    with pytest.raises(UnsuitableStoreError, match="quota realm"):
        posix.probe(root / "staging", into=root / "versions")
    assert names(root / "staging") == names(root / "versions") == []
    (root / "staging/version").mkdir()
    with pytest.raises(UnsuitableStoreError, match="quota realm"):
        posix.rename_directory(root / "staging/version", root / "versions/version")
    assert names(root / "staging") == ["version"]


def test_a_full_quota_is_told_and_leaves_nothing(root: Path) -> None:
    """CE-09."""
    full = root / "full"
    full.mkdir()
    set_quota(full, MIB)
    with pytest.raises(QuotaExceededError):
        posix.create_exclusive(full / "plan", b"x" * 16 * MIB)
    with pytest.raises(QuotaExceededError):
        (Location.parse(str(full)) / "file").write_atomic(lambda file: file.write(b"x" * 16 * MIB))
    assert names(full) == []


def test_of_racing_renames_one_wins_and_is_whole(roots: list[Path]) -> None:
    """CE-02."""
    race_renames(roots * 2, rounds=50)


def test_of_racing_creations_one_wins_and_is_whole(roots: list[Path]) -> None:
    # Few rounds: each takes seconds, for which the mds hands the file from mount to mount.
    race_creations(roots * 2, rounds=8)


def test_an_existing_folder_is_never_replaced_not_even_an_empty_one(roots: list[Path]) -> None:
    """CE-18."""
    first, second = roots
    (first / "staging").mkdir()
    for name in ("empty", "full/inner"):
        (second / name).mkdir(parents=True)
    for name in ("empty", "full"):
        with pytest.raises(ConflictError):
            posix.rename_directory(first / "staging", first / name)
    assert names(first) == ["empty", "full", "staging"]


def test_a_commit_is_seen_through_every_mount_at_once(roots: list[Path]) -> None:
    first, second = roots
    (first / "staging").mkdir()
    with (first / "staging/file").open("wb") as file:
        file.write(b"content" * 1000)
        file.flush()
        os.fsync(file.fileno())
    posix.sync_dir(first / "staging")
    posix.rename_directory(first / "staging", first / "final")
    posix.sync_dir(first)
    assert names(second) == ["final"]
    assert (second / "final/file").read_bytes() == b"content" * 1000


def test_a_pointer_is_replaced_for_every_mount(roots: list[Path]) -> None:
    first, second = roots
    for data in (b"g0001\n", b"g0002\n"):
        posix.replace_file(first / "CURRENT", data)
        assert (second / "CURRENT").read_bytes() == data


def test_a_lock_is_held_across_mounts(roots: list[Path]) -> None:
    first, second = roots
    with (
        posix.file_lock(first / "lock"),
        pytest.raises(StorageError, match="holds this lock"),
        posix.file_lock(second / "lock", timeout_s=0.1),
    ):
        pytest.fail("two holders")
    with posix.file_lock(second / "lock", timeout_s=10):
        pass
