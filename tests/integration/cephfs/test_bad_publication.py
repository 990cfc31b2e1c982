"""Publication roots that refuse, fill up or cannot hold versions: message, outcome, leftovers.

If CephFS itself refuses, the case runs on CephFS; all others run on small and read-only file
systems of this machine. Every case ends with the same build after the fault is removed.
"""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.conftest import project as project  # noqa: PLC0414 - a fixture
from trainfeed.errors import (
    AccessDeniedError,
    NotFoundError,
    Outcome,
    QuotaExceededError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.versions.root import ROOT_MARKER, init_root

# Bytes of the quota: enough for the plan, too few for a version.
SMALL = 24 * 1024
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")


def at(project: Project, root: Path) -> Project:
    return Project(project.path, replace(project.env, root=str(root)))


def refuse(project: Project, kind: type[StorageError]) -> str:
    """Build, be refused for good, and see that nothing is published; returns the message."""
    with pytest.raises(kind) as caught:
        project.build()
    assert type(caught.value) is kind
    assert kind.outcome is Outcome.FAIL
    with pytest.raises(NotFoundError):
        project.version()
    assert list(project.folder.path.glob("versions/*/g*")) == []
    return str(caught.value)


def build_after_all(project: Project) -> None:
    assert project.build()["verdict"] == "built"
    assert list(project.version().problems()) == []
    # What tries left behind became the version, or is gone.
    assert [path for path in project.folder.staging.rglob("*") if path.is_file()] == []


def mount(kind: str, options: str, target: Path, source: str = "none") -> None:
    subprocess.run(["mount", "-t", kind, "-o", options, source, target], check=True)


@pytest.fixture
def root() -> Iterator[Path]:
    """A publication root on CephFS."""
    root = Path(os.environ["TEST_CEPHFS_PATH"]) / f"trainfeed-test-{uuid.uuid4()}"
    init_root(root)
    yield root
    shutil.rmtree(root)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A publication root on a disk in memory, of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount("tmpfs", "size=64m", disk)
    init_root(disk)
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_cephfs_quota_that_is_full_is_told_and_publishes_nothing(
    project: Project, root: Path
) -> None:
    """CE-09."""
    limited = at(project, root)
    limited.folder.path.mkdir()
    os.setxattr(root, "ceph.quota.max_bytes", str(SMALL).encode())
    num_marked = sum(path.stat().st_size for path in root.iterdir() if path.is_file())
    (root / "filler").write_bytes(bytes(SMALL - num_marked))
    message = refuse(limited, QuotaExceededError)
    assert str(root) in message
    assert "free space or raise the quota" in message
    os.setxattr(root, "ceph.quota.max_bytes", b"0")
    build_after_all(limited)


@as_root
def test_a_disk_that_is_full_at_any_point_is_told_and_publishes_nothing(
    project: Project, disk: Path
) -> None:
    """CE-09: the disk is a page larger each time, and empty: it ends in every file once."""
    full = at(project, disk)
    full_at = set()
    for pages in range(2, 100):
        mount("tmpfs", f"remount,size={pages * mmap.PAGESIZE}", disk)
        error = refusal(full)
        if error is None:
            break
        full_at.add(Path(str(error).partition(":")[0]).name)
        shutil.rmtree(full.folder.path)
    assert {"CHUNKS.arrow", "MANIFEST.json", "MANIFEST.sha256", "statistics.json"} < full_at
    assert list(full.version().problems()) == []


@as_root
def test_tries_on_a_disk_that_grows_use_what_earlier_ones_wrote(
    project: Project, disk: Path
) -> None:
    """CE-09: every try gets further, or writes nothing; which files it ends in, the sizes say."""
    full = at(project, disk)
    kept = [0]
    for pages in range(2, 100):
        mount("tmpfs", f"remount,size={pages * mmap.PAGESIZE}", disk)
        error = refusal(full)
        if error is None:
            break
        # The record of the failure would take the page by which the next try gets further.
        shutil.rmtree(full.folder.path / "unpublished", ignore_errors=True)
        kept.append(sum(path.is_file() for path in full.folder.staging.rglob("*")))
    assert kept == sorted(kept)
    assert kept[-1] > 4
    assert list(full.version().problems()) == []


def refusal(project: Project) -> QuotaExceededError | None:
    """Build; if the disk is full, see that it is told well and that nothing is published."""
    refused = None
    try:
        project.build()
    except QuotaExceededError as error:
        refused = error
    if refused is not None:
        assert refused.outcome is Outcome.FAIL
        assert "free space or raise the quota" in str(refused)
        assert list(project.folder.path.glob("versions/*/g*")) == []
        assert [path for path in project.folder.staging.glob("tmp/**/*") if path.is_file()] == []
    return refused


@as_root
def test_a_read_only_root_is_told_before_anything_is_read(project: Project, disk: Path) -> None:
    locked = at(project, disk)
    mount("tmpfs", "remount,ro", disk)
    message = refuse(locked, AccessDeniedError)
    assert str(disk) in message
    assert "read-only" in message
    assert not (project.path / "landing").exists()
    mount("tmpfs", "remount,rw,size=64m", disk)
    build_after_all(locked)


def test_a_root_that_this_account_may_not_write_to_is_told(project: Project) -> None:
    root = Path(project.env.root)
    command = [sys.executable, "-m", "trainfeed", "build", "clicks", "--interval", "2024-03-01"]
    if os.geteuid() == 0:
        # As any account: without the right to overrule permissions.
        os.chown(root, 65534, 65534)
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", *command]
    root.chmod(0o555)
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TRAINFEED_ROOT": str(root),
        "TRAINFEED_LANDING": project.env.landing,
        "TRAINFEED_WORK": project.env.work,
        "TRAINFEED_KAFKA": f"recorded:{project.path / 'recorded'}",
        "TRAINFEED_DATASETS": str(project.env.datasets),
    }
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert str(root) in done.stderr
    assert "permission denied" in done.stderr
    assert [path.name for path in root.iterdir()] == [ROOT_MARKER]
    assert not (project.path / "landing").exists()
    root.chmod(0o755)
    build_after_all(project)


def test_a_root_whose_renames_replace_folders_is_refused_at_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CE-01: what some clients of object stores do."""
    rename = os.rename

    def replacing(source: Path, target: Path) -> None:
        if Path(target).is_dir():
            shutil.rmtree(target)
        rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", replacing)
        message = refuse(project, UnsuitableStoreError)
    assert "holds something" in message
    assert not (project.path / "landing").exists()
    build_after_all(project)


@as_root
def test_versions_on_another_mount_than_staging_are_refused_at_once(
    project: Project, disk: Path
) -> None:
    """CE-14."""
    mount("tmpfs", "remount,size=64m", disk)
    split = at(project, disk)
    versions = split.folder.path / "versions"
    versions.mkdir(parents=True)
    subprocess.run(["mount", "--bind", versions, versions], check=True)
    try:
        message = refuse(split, UnsuitableStoreError)
    finally:
        subprocess.run(["umount", versions], check=True)
    assert "cross-device" in message
    build_after_all(split)
