from __future__ import annotations

import errno
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.files.stores.racing import race_creations, race_renames
from trainfeed.errors import (
    AccessDeniedError,
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files import TargetFile, os_errors
from trainfeed.files.stores import posix


def version(path: Path, content: str = "content") -> Path:
    path.mkdir(parents=True)
    (path / "file").write_text(content)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fail_with(number: int) -> Callable[..., None]:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


# --- rename_directory: the commit -------------------------------------------------------------


def test_a_folder_gets_a_free_name(tmp_path: Path) -> None:
    posix.rename_directory(version(tmp_path / "staging"), str(tmp_path / "final"))
    assert names(tmp_path) == ["final"]


@pytest.mark.parametrize("taken", ["full", "empty", "file", "link"])
def test_a_name_that_anything_has_is_refused(tmp_path: Path, taken: str) -> None:
    """CE-02, CE-18: the kernel alone would replace an empty folder."""
    staging, final = version(tmp_path / "staging"), tmp_path / "final"
    match taken:
        case "full":
            version(final, "published")
        case "empty":
            final.mkdir()
        case "file":
            final.touch()
        case "link":
            final.symlink_to("nowhere")
    before = final.lstat()
    with pytest.raises(ConflictError, match="final"):
        posix.rename_directory(staging, final)
    assert os.path.samestat(before, final.lstat())
    assert (staging / "file").read_text() == "content"


def test_a_name_taken_after_the_look_is_refused_by_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging, final = version(tmp_path / "staging"), version(tmp_path / "final", "published")
    monkeypatch.setattr(posix, "_lexists", lambda _: False)
    with pytest.raises(ConflictError):
        posix.rename_directory(staging, final)
    assert (final / "file").read_text() == "published"
    assert (staging / "file").read_text() == "content"


def test_only_a_folder_that_is_there_is_committed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(version(tmp_path / "elsewhere"))
    for source in ("missing", "file", "link"):
        with pytest.raises(NotFoundError):
            posix.rename_directory(tmp_path / source, tmp_path / "final")
    with pytest.raises(NotFoundError):
        posix.rename_directory(tmp_path / "elsewhere", tmp_path / "missing/final")
    assert names(tmp_path) == ["elsewhere", "file", "link"]


def test_a_source_that_became_the_target_is_unknown(tmp_path: Path) -> None:
    """R10: the twin of this try, or its own first request, was there before."""
    version(tmp_path / "final")
    with pytest.raises(CommitUnknownError, match="first looks for the result"):
        posix.rename_directory(tmp_path / "staging", tmp_path / "final")


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOTEMPTY, ConflictError),
        (errno.EEXIST, ConflictError),
        (errno.EXDEV, UnsuitableStoreError),
        (errno.EACCES, AccessDeniedError),
        (errno.EROFS, AccessDeniedError),
        (errno.ENOSPC, QuotaExceededError),
        (errno.EDQUOT, QuotaExceededError),
        (errno.EIO, CommitUnknownError),
        (errno.ETIMEDOUT, CommitUnknownError),
        (errno.ESHUTDOWN, CommitUnknownError),
        (errno.ENOTCONN, CommitUnknownError),
        (errno.ECONNABORTED, CommitUnknownError),
        (errno.ESTALE, CommitUnknownError),
        (errno.EINTR, CommitUnknownError),
    ],
)
def test_what_a_failed_rename_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[StorageError]
) -> None:
    staging = version(tmp_path / "staging")
    monkeypatch.setattr(os, "rename", fail_with(number))
    with pytest.raises(StorageError) as caught:
        posix.rename_directory(staging, tmp_path / "final")
    assert type(caught.value) is expected
    assert str(staging) in str(caught.value)
    assert "final" in str(caught.value)


def test_of_racing_renames_one_wins_and_is_whole(tmp_path: Path) -> None:
    """CE-02."""
    race_renames([tmp_path] * 4, rounds=25)


# --- create_exclusive and replace_file --------------------------------------------------------


def test_the_first_creation_wins_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert posix.create_exclusive(path, b"first") is True
    assert posix.create_exclusive(str(path), b"second") is False
    assert path.read_bytes() == b"first"
    assert path.stat().st_nlink == 1
    assert names(tmp_path) == ["plan.json"]


@pytest.mark.parametrize("taken", ["folder", "link"])
def test_a_name_of_another_kind_is_taken_too(tmp_path: Path, taken: str) -> None:
    path = tmp_path / "plan.json"
    if taken == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    assert posix.create_exclusive(path, b"data") is False
    assert names(tmp_path) == ["plan.json"]


def test_of_racing_creations_one_wins_and_is_whole(tmp_path: Path) -> None:
    race_creations([tmp_path] * 4, rounds=25)


def test_an_answer_that_was_lost_does_not_lose_the_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that repeats its request is told that the name is taken: by itself."""
    link = os.link

    def link_twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    assert posix.create_exclusive(tmp_path / "plan.json", b"data") is True
    assert names(tmp_path) == ["plan.json"]


def refused_write(number: int) -> Callable[..., None]:
    def write(self: TargetFile, _data: bytes) -> None:
        with os_errors(self.place):
            raise OSError(number, os.strerror(number))

    return write


@pytest.mark.parametrize("function", ["fsync", "link", "replace", "write"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.ESHUTDOWN])
def test_no_error_leaves_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int
) -> None:
    """CE-10."""
    (tmp_path / "old").write_bytes(b"old")
    if function == "write":
        monkeypatch.setattr(TargetFile, "write", refused_write(number))
    else:
        monkeypatch.setattr(os, function, fail_with(number))
    quota = number in {errno.ENOSPC, errno.EDQUOT}
    expected = QuotaExceededError if quota else StorageError
    if function != "replace":
        with pytest.raises(StorageError) as caught:
            posix.create_exclusive(tmp_path / "new", b"data")
        assert type(caught.value) is expected
    if function != "link":
        with pytest.raises(StorageError) as caught:
            posix.replace_file(tmp_path / "old", b"data")
        assert type(caught.value) is expected
    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_a_kill_before_the_claim_leaves_the_name_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(os, "link", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        posix.create_exclusive(tmp_path / "plan.json", b"half")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not (tmp_path / "plan.json").exists()
    assert posix.create_exclusive(tmp_path / "plan.json", b"whole") is True
    assert (tmp_path / "plan.json").read_bytes() == b"whole"


def test_replacing_swaps_the_whole_content(tmp_path: Path) -> None:
    for data in (b"first", b"second"):
        posix.replace_file(tmp_path / "CURRENT", data)
        assert (tmp_path / "CURRENT").read_bytes() == data
    assert names(tmp_path) == ["CURRENT"]
    with pytest.raises(ConflictError):
        posix.replace_file(version(tmp_path / "folder"), b"data")
    assert names(tmp_path) == ["CURRENT", "folder"]


def test_replacing_follows_no_link(tmp_path: Path) -> None:
    """CE-19."""
    (tmp_path / "victim").write_bytes(b"old")
    (tmp_path / "CURRENT").symlink_to("victim")
    posix.replace_file(tmp_path / "CURRENT", b"new")
    assert (tmp_path / "victim").read_bytes() == b"old"
    assert not (tmp_path / "CURRENT").is_symlink()


# --- what other accounts read -----------------------------------------------------------------


@pytest.fixture
def private_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("private_umask")
def test_public_folders_are_readable_and_those_that_are_there_stay_as_they_are(
    tmp_path: Path,
) -> None:
    (tmp_path / "there").mkdir(mode=0o700)
    posix.make_public_dir(tmp_path / "there" / "new" / "inner")
    posix.make_public_dir(tmp_path / "there" / "new" / "inner")
    inner = tmp_path / "there" / "new" / "inner"
    assert [mode(path) for path in (inner, inner.parent, inner.parent.parent)] == [
        0o755,
        0o755,
        0o700,
    ]


def test_a_public_folder_does_not_take_the_name_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    with pytest.raises(ConflictError):
        posix.make_public_dir(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"data"


@pytest.mark.usefixtures("private_umask")
def test_a_file_is_public_only_when_asked_for(tmp_path: Path) -> None:
    posix.replace_file(tmp_path / "pointer", b"data", is_public=True)
    posix.replace_file(tmp_path / "note", b"data")
    assert [mode(tmp_path / name) for name in ("pointer", "note")] == [0o644, 0o600]


# --- syncing, locking, removing ---------------------------------------------------------------


def test_syncing_wants_what_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    posix.sync_dir(tmp_path)
    for name in ("missing", "file"):
        with pytest.raises(NotFoundError):
            posix.sync_dir(tmp_path / name)


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        posix.file_lock(path),
        pytest.raises(StorageError, match="holds this lock"),
        posix.file_lock(path, timeout_s=0.05),
    ):
        pytest.fail("two holders")
    with posix.file_lock(path, timeout_s=0):
        pass


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    holding, release = threading.Event(), threading.Event()

    def hold() -> None:
        with posix.file_lock(tmp_path / "lock"):
            holding.set()
            release.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    assert holding.wait(10)
    threading.Timer(0.05, release.set).start()
    with posix.file_lock(tmp_path / "lock", timeout_s=10):
        assert release.is_set()
    holder.join()


def test_a_lock_ends_with_its_block_also_when_a_child_still_has_the_descriptor(
    tmp_path: Path,
) -> None:
    ready, stop = os.pipe(), os.pipe()
    with posix.file_lock(tmp_path / "lock"):
        child = os.fork()
        if child == 0:
            os.write(ready[1], b"1")
            os.read(stop[0], 1)
            os._exit(0)
        os.read(ready[0], 1)
    try:
        with posix.file_lock(tmp_path / "lock", timeout_s=0):
            pass
    finally:
        os.write(stop[1], b"1")
        os.waitpid(child, 0)
        for descriptor in (*ready, *stop):
            os.close(descriptor)


def test_an_error_under_a_lock_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="mine") as caught, posix.file_lock(tmp_path / "lock"):
        raise OSError(errno.ENOSPC, "mine")
    assert type(caught.value) is OSError


def test_a_tree_is_removed_without_following_links(tmp_path: Path) -> None:
    version(tmp_path / "kept")
    version(tmp_path / "tree/inner")
    (tmp_path / "tree/link").symlink_to(tmp_path / "kept")
    posix.remove_tree(tmp_path / "tree")
    posix.remove_tree(tmp_path / "tree")
    assert names(tmp_path) == ["kept"]
    assert names(tmp_path / "kept") == ["file"]


# --- probe ------------------------------------------------------------------------------------


def test_a_good_file_system_passes_and_stays_clean(tmp_path: Path) -> None:
    for name in ("staging", "versions"):
        (tmp_path / name).mkdir()
    posix.probe(tmp_path)
    posix.probe(tmp_path / "staging", into=tmp_path / "versions")
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == [
        "staging",
        "versions",
    ]


def test_a_missing_root_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        posix.probe(tmp_path / "missing")
    assert names(tmp_path) == []


def replacing_rename(source: Path, target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)
    source.replace(target)


@pytest.mark.parametrize(
    ("function", "fake", "complaint"),
    [
        ("link", fail_with(errno.EPERM), "hard links"),
        ("link", lambda *_: None, "hard links.*not refused"),
        ("fsync", fail_with(errno.EINVAL), "fsync"),
        ("rename", fail_with(errno.EXDEV), "renaming a folder from .* cross-device"),
        ("rename", replacing_rename, "holds something.*not refused"),
        ("mkdir", fail_with(errno.EROFS), "can be written.*read-only"),
    ],
)
def test_what_a_file_system_lacks_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    fake: Callable[..., None],
    complaint: str,
) -> None:
    """CE-01, CE-14."""
    with monkeypatch.context() as patched:
        patched.setattr(os, function, fake)
        with pytest.raises(UnsuitableStoreError, match=complaint) as caught:
            posix.probe(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert names(tmp_path) == []


def test_creation_that_takes_any_name_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open
    with monkeypatch.context() as patched:
        patched.setattr(
            os,
            "open",
            lambda path, flags, *rest, **options: opened(
                path, flags & ~os.O_EXCL, *rest, **options
            ),
        )
        with pytest.raises(UnsuitableStoreError, match="exclusive creation"):
            posix.probe(tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, QuotaExceededError),
        (errno.EACCES, AccessDeniedError),
        (errno.ESHUTDOWN, StorageError),
        (errno.ENOTCONN, StorageError),
    ],
)
def test_what_is_not_the_file_systems_fault_is_not_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[StorageError]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "mkdir", fail_with(number))
        with pytest.raises(StorageError) as caught:
            posix.probe(tmp_path)
    assert type(caught.value) is expected


def test_two_file_systems_are_told_apart(tmp_path: Path) -> None:
    places = [Path("/dev/shm"), Path(tempfile.gettempdir())]
    others = [
        each for each in places if each.is_dir() and each.stat().st_dev != tmp_path.stat().st_dev
    ]
    if not others:
        pytest.skip("no second file system to write to")
    other = others[0]
    before = set(other.iterdir())
    with pytest.raises(UnsuitableStoreError, match="cross-device"):
        posix.probe(tmp_path, into=other)
    assert not [path for path in set(other.iterdir()) - before if "probe" in path.name]
    assert names(tmp_path) == []


def test_a_shared_lock_has_many_holders_and_none_beside_the_one_of_try_lock(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch(mode=0o444)
    with (
        posix.shared_lock(path),
        posix.shared_lock(path, timeout_s=0),
        posix.try_lock(path) as is_held,
    ):
        assert not is_held
    with posix.try_lock(path) as is_held:
        assert is_held
        with (
            pytest.raises(StorageError, match="holds this lock"),
            posix.shared_lock(path, timeout_s=0),
        ):
            pytest.fail("a reader beside the only holder")
    for lock in (posix.shared_lock, posix.try_lock):
        with pytest.raises(NotFoundError), lock(tmp_path / "missing"):
            pytest.fail("a lock of a missing file")
