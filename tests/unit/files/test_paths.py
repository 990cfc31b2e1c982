"""Paths, lists and globs: the files that they name, and errors."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
)
from trainfeed.files import NewFile, expand_paths, os_errors, path_of, write_all


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_globs_are_sorted_by_name_and_lists_keep_their_order(tmp_path):
    for name in ("b-10", "b-2", "b-1", "a", "c,d"):
        (tmp_path / name).touch()
    found = expand_paths(f"{tmp_path}/b-*,{tmp_path}/a")
    assert [Path(path).name for path in found] == ["b-1", "b-10", "b-2", "a"]
    found = expand_paths([tmp_path / "c,d", f"{tmp_path}/a,{tmp_path}/a"])
    assert [Path(path).name for path in found] == ["c,d", "a", "a"]


def test_a_file_with_the_very_name_is_no_glob(tmp_path):
    for name in ("a[1]", "a1", "b*", "bc"):
        (tmp_path / name).touch()
    found = expand_paths(f"{tmp_path}/a[1],{tmp_path}/b*,{tmp_path}/a[0-9]")
    assert [Path(path).name for path in found] == ["a[1]", "b*", "a1"]


def test_no_files_at_all_are_an_error_too():
    with pytest.raises(NotFoundError, match="expected at least one file, got an empty list"):
        expand_paths([])


def test_part_without_a_match_is_named(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(NotFoundError, match=r"/b-\*"):
        expand_paths(f"{tmp_path}/a,{tmp_path}/b-*")
    with pytest.raises(NotFoundError):
        expand_paths("")


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOENT, NotFoundError),
        (errno.EACCES, AccessDeniedError),
        (errno.EEXIST, ConflictError),
        (errno.ENOSPC, QuotaExceededError),
        (errno.EDQUOT, QuotaExceededError),
        (errno.EIO, StorageError),
        (None, StorageError),
    ],
)
def test_what_the_system_refuses_is_a_storage_error_with_the_path(number, kind):
    error = OSError(number, "reason") if number else OSError("reason")
    with pytest.raises(StorageError, match=r"^/the/path: ") as caught, os_errors("/the/path"):
        raise error
    assert type(caught.value) is kind


def test_file_has_its_name_when_it_is_whole_and_not_before(tmp_path):
    new = NewFile(tmp_path / "a")
    write_all(new.file, b"bytes")
    assert names_in(tmp_path) != ["a"]
    new.commit()
    assert names_in(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"bytes"


def test_abandoned_file_leaves_nothing(tmp_path):
    new = NewFile(tmp_path / "a")
    new.abandon()
    new.abandon()
    assert names_in(tmp_path) == []


def test_a_file_that_is_dropped_leaves_nothing(tmp_path):
    new = NewFile(tmp_path / "a")
    write_all(new.file, b"bytes")
    assert len(names_in(tmp_path)) == 1
    del new
    assert names_in(tmp_path) == []


AT_THE_END = """
import sys
from trainfeed.files import NewFile

new = NewFile(sys.argv[1])
new.file.write(b"bytes")
"""

IN_A_CHILD = """
import os

child = os.fork()
if not child:
    del new
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
new.commit()
"""


@pytest.mark.parametrize(
    ("code", "left"), [(AT_THE_END, []), (AT_THE_END + IN_A_CHILD, ["a"])], ids=["end", "child"]
)
def test_an_interpreter_that_ends_drops_its_own_file_and_a_child_that_of_nobody(
    tmp_path, code, left
):
    include = str(Path(__file__).parents[3] / "include")
    command = [sys.executable, "-c", code, str(tmp_path / "a")]
    subprocess.run(command, env={"PYTHONPATH": include}, check=True)
    assert names_in(tmp_path) == left


def test_name_that_is_taken_is_kept(tmp_path):
    (tmp_path / "a").write_bytes(b"first")
    with pytest.raises(ConflictError, match="exists"):
        NewFile(tmp_path / "a")
    new = NewFile(tmp_path / "b")
    (tmp_path / "b").write_bytes(b"first")
    with pytest.raises(ConflictError):
        new.commit()
    assert names_in(tmp_path) == ["a", "b"]
    assert (tmp_path / "b").read_bytes() == b"first"


def test_all_is_written_to_a_file_that_takes_little(tmp_path):
    class Slow:
        name = "slow"

        def __init__(self):
            self.data = b""

        def write(self, data):
            self.data += bytes(data[:3])
            return min(len(data), 3)

    slow = Slow()
    write_all(slow, b"0123456789")
    assert slow.data == b"0123456789"
    slow.write = lambda _: 0
    with pytest.raises(StorageError, match="slow takes no more bytes"):
        write_all(slow, b"1")


def test_everything_has_a_name_that_has_one(tmp_path):
    path = tmp_path / "a"
    path.touch()
    fd = os.open(path, os.O_RDONLY)
    try:
        assert path_of(fd) == path_of(path) == path_of(str(path)) == str(path)
    finally:
        os.close(fd)
    assert path_of(fd) is None
    assert path_of(object()) is None
    with os.fdopen(os.open(path, os.O_RDONLY), "rb") as file:
        assert path_of(file) == str(path)
    with tempfile.TemporaryFile() as file, os.fdopen(os.pipe()[0], "rb") as pipe:
        assert path_of(file) is path_of(pipe) is None
    with path.open("rb") as file:
        assert path_of(file) == str(path)
