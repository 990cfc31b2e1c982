"""The temporary name of a new file, and the moment when it gets its own."""

import errno
import os
import stat
import uuid
from pathlib import Path

import pytest

from trainfeed.errors import ConflictError, QuotaExceededError, StorageError
from trainfeed.files import (
    NewFile,
    UnfinishedFile,
    claim_name,
    durable_file,
    is_unfinished,
    unfinished_name,
    write_all,
)
from trainfeed.files.stores import posix
from trainfeed.files.stores.file_system import temporary_path


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def answer_is_lost(monkeypatch):
    """Let every second name be given, and its answer come from a repeated request."""
    link = os.link

    def linked_twice(source, target, **how):
        link(source, target, **how)
        link(source, target, **how)

    monkeypatch.setattr(os, "link", linked_twice)


def test_a_block_that_ends_gives_the_file_its_name(tmp_path):
    with NewFile(tmp_path / "a") as new:
        write_all(new.file, b"bytes")
        assert [is_unfinished(name) for name in names_in(tmp_path)] == [True]
    assert names_in(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"bytes"


def test_a_block_that_fails_leaves_nothing_and_its_own_error(tmp_path):
    def fails():
        with NewFile(tmp_path / "a") as new:
            write_all(new.file, b"bytes")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails()
    assert names_in(tmp_path) == []


def test_a_name_that_is_taken_meanwhile_is_an_error_of_the_block_and_stays(tmp_path):
    def comes_second():
        with NewFile(tmp_path / "a") as new:
            write_all(new.file, b"second")
            (tmp_path / "a").write_bytes(b"first")

    with pytest.raises(ConflictError, match="a was made by another process"):
        comes_second()
    assert names_in(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"first"


def test_a_file_whose_answer_was_lost_has_its_name(tmp_path, monkeypatch):
    answer_is_lost(monkeypatch)
    with NewFile(tmp_path / "a") as new:
        write_all(new.file, b"bytes")
    assert posix.create_exclusive(tmp_path / "b", b"bytes")
    assert names_in(tmp_path) == ["a", "b"]


def test_a_name_is_claimed_once(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).write_bytes(name.encode())
    assert claim_name(tmp_path / "first", tmp_path / "a")
    assert not claim_name(tmp_path / "second", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"first"


def test_what_never_became_whole_is_known_by_its_name():
    written = [unfinished_name("shard-00000"), Path(temporary_path("/a/CURRENT")).name]
    assert all(map(is_unfinished, [*written, f"0123456789abcdef-g0001.{uuid.uuid4().hex}.tmp"]))
    assert len({unfinished_name("a") for _ in range(100)}) == 100
    finished = ["a", "a.tmp", f"{uuid.uuid4()}.tmp", f"a.{uuid.uuid4()}", written[0] + ".json"]
    assert not any(map(is_unfinished, finished))


def test_a_file_takes_the_place_of_another_once_it_is_whole(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with UnfinishedFile(tmp_path / "a", buffer_bytes=1 << 16) as new:
        new.file.write(b"new")
        assert (tmp_path / "a").read_bytes() == b"old"
        new.replace()
    assert names_in(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"new"


def test_what_has_no_name_at_the_end_of_its_block_is_removed(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with UnfinishedFile(tmp_path / "a", buffer_bytes=1 << 16) as new:
        new.file.write(b"new")
    assert names_in(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("way", ["commit", "replace"])
def test_bytes_are_durable_before_the_name_and_the_name_is_at_the_end(tmp_path, monkeypatch, way):
    seen = []

    def noted(descriptor):
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        seen.append("folder" if is_folder else ["file", *names_in(tmp_path)][1] == "a")

    monkeypatch.setattr(os, "fsync", noted)
    new = NewFile(tmp_path / "a")
    write_all(new.file, b"bytes")
    getattr(new, way)()
    assert seen == [False, "folder"]


@pytest.mark.parametrize("way", ["commit", "replace"])
def test_a_file_that_is_not_durable_gets_no_name_and_is_not_synced_again(
    tmp_path, monkeypatch, way
):
    calls = []

    def refused(descriptor):
        calls.append(descriptor)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "fsync", refused)
    new = NewFile(tmp_path / "a")
    write_all(new.file, b"bytes")
    with pytest.raises(QuotaExceededError, match=f"^{tmp_path / 'a'}: disk quota exceeded"):
        getattr(new, way)()
    assert (len(calls), names_in(tmp_path)) == (1, [])


@pytest.mark.parametrize("buffer_bytes", [0, 1 << 16])
def test_a_refused_write_names_the_file_that_is_meant_and_leaves_nothing(
    tmp_path, monkeypatch, buffer_bytes
):
    opened = os.open
    monkeypatch.setattr(os, "open", lambda path, flags, mode: opened("/dev/full", os.O_RDWR))  # noqa: ARG005
    new = NewFile(tmp_path / "a", buffer_bytes=buffer_bytes)
    monkeypatch.undo()
    told = f"^{tmp_path / 'a'}: no space left on device"
    with pytest.raises(QuotaExceededError, match=told), new:
        new.file.write(b"bytes")
    assert names_in(tmp_path) == []


def test_a_file_of_a_folder_that_has_no_name_yet_is_durable_at_the_end(tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    with durable_file(tmp_path / "a") as file:
        file.write(b"bytes")
    assert sizes == [5]
    with pytest.raises(ConflictError), durable_file(tmp_path / "a"):
        pass


def test_a_mode_that_is_asked_for_counts_more_than_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        for name, mode in (("a", 0o444), ("b", None)):
            with NewFile(tmp_path / name) as new:
                if mode is not None:
                    new.set_mode(mode)
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in "ab"] == [0o444, 0o600]


def test_what_the_system_says_of_a_name_is_an_error_of_ours(tmp_path, monkeypatch):
    def refused(self, *_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(StorageError, match="permission denied"):
        NewFile(tmp_path / "a")
