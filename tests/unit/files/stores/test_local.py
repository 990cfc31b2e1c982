from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.files.stores.file_system_behaviour import RenamingBehaviour, names, put
from trainfeed.errors import AccessDeniedError, QuotaExceededError, StorageError
from trainfeed.files.stores import Location

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Location:
    return Location.parse(str(tmp_path))


class TestLocalFileSystem(RenamingBehaviour):
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Location:
        return Location.parse(str(tmp_path))


@contextmanager
def largest_file(num_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_told_and_leaves_nothing(folder: Location) -> None:
    """CE-08."""
    with largest_file(2 * MIB), pytest.raises(QuotaExceededError, match=r"file.*free space"):
        (folder / "file").write_atomic(lambda file: file.write(b"x" * 3 * MIB))
    with largest_file(MIB), pytest.raises(QuotaExceededError):
        (folder / "file").create_exclusive(b"x" * 2 * MIB)
    assert names(folder) == []


def test_a_full_tmpfs_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    """CE-08, with a real file system that is full."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small file system")
    try:
        folder = Location.parse(str(tmp_path))
        with pytest.raises(QuotaExceededError, match="no space left on device"):
            (folder / "file").write_atomic(lambda file: file.write(b"x" * 2 * MIB))
        with pytest.raises(QuotaExceededError):
            (folder / "file").create_exclusive(b"x" * 2 * MIB)
        assert names(folder) == []
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def test_a_failed_sync_is_an_error_and_not_tried_again(
    folder: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CE-11: a second fsync would succeed and lie."""
    calls = []

    def fail_once(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail_once)
    with pytest.raises(StorageError, match="input/output error") as caught:
        (folder / "file").write_atomic(lambda file: file.write(b"data"))
    assert type(caught.value) is StorageError
    assert len(calls) == 1
    assert names(folder) == []


def test_bytes_and_names_are_synced(folder: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []

    def record(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))

    monkeypatch.setattr(os, "fsync", record)
    put(folder / "file")
    assert synced == [False, True]
    synced.clear()
    (folder / "file").renaming("a test").rename(folder / "renamed")
    assert synced == [True]


def test_read_errors_say_where(folder: Location) -> None:
    """RD-12."""
    put(folder / "file")
    for read in (lambda file: file.read(), lambda file: file.read(1)):
        with (folder / "file").open_read() as file:
            write_only = os.open(os.devnull, os.O_WRONLY)
            os.dup2(write_only, file.fileno())
            os.close(write_only)
            with pytest.raises(StorageError, match="file: bad file descriptor"):
                read(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_another_user_may_not_is_denied(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setresuid(65534, 65534, 65534)
            try:
                put(Location.parse(str(tmp_path / "file")))
            except AccessDeniedError:
                status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_work_files_are_not_for_everybody(folder: Location) -> None:
    """SE-18."""
    old = os.umask(0)
    try:
        put(folder / "inner/written")
        (folder / "inner/claimed").create_exclusive(b"data")
    finally:
        os.umask(old)
    modes = [path.stat().st_mode & 0o777 for path in sorted(Path(folder.path, "inner").iterdir())]
    assert modes == [0o640, 0o640]
    assert Path(folder.path, "inner").stat().st_mode & 0o777 == 0o750


def test_deleting_a_folder_does_not_follow_links(folder: Location) -> None:
    put(folder / "kept/file")
    (folder / "deleted").make_dir()
    Path(folder.path, "deleted/link").symlink_to(Path(folder.path, "kept"))
    (folder / "deleted").delete(recursive=True)
    assert names(folder / "kept") == ["file"]
    Path(folder.path, "link").symlink_to(Path(folder.path, "kept"))
    (folder / "link").delete(recursive=True)
    assert names(folder) == ["kept"]


def test_a_new_file_is_not_written_through_a_link(folder: Location) -> None:
    """CE-19."""
    put(folder / "victim", b"old")
    Path(folder.path, "link").symlink_to(Path(folder.path, "victim"))
    with pytest.raises(StorageError), (folder / "link").open_write() as file:
        file.write(b"new")
    assert (folder / "victim").read_bytes() == b"old"


def test_a_link_to_nothing_is_not_listed_unless_it_is_asked_for(folder: Location) -> None:
    put(folder / "file", b"x")
    for name, target in {"link": "nowhere", "loop": "loop", "under": "file/x"}.items():
        Path(folder.path, name).symlink_to(target)
    found = {info.name: info for info in folder.list(broken=True)}
    assert found.keys() == {"file", "link", "loop", "under"}
    assert {info.name for info in found.values() if info.oddity} == {"link", "loop", "under"}
    for name in ("loop", "under"):
        Path(folder.path, name).unlink()
    assert names(folder) == ["file"]


def test_a_listing_tells_links_and_further_names_of_a_file(folder: Location) -> None:
    put(folder / "file", b"x")
    Path(folder.path, "hard").hardlink_to(Path(folder.path, "file"))
    Path(folder.path, "soft").symlink_to("file")
    put(folder / "other", b"x")
    found = {info.name: info for info in folder.list()}
    assert {info.name for info in found.values() if info.is_link} == {"soft"}
    assert found["hard"].inode == found["soft"].inode == found["file"].inode
    assert found["other"].inode != found["file"].inode
    assert found["file"].inode is not None
    assert found["file"].inode.links == 2


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_an_entry_that_is_neither_file_nor_folder_is_told(
    folder: Location, make: Callable[[Path], object]
) -> None:
    put(folder / "file", b"x")
    make(Path(folder.path, "odd"))
    assert [info.name for info in folder.list() if info.oddity is not None] == ["odd"]
