"""What a new file is called until it is whole, and when it has its name."""

import os
import uuid
from pathlib import Path

import pytest

from trainfeed.errors import ConflictError
from trainfeed.paths import NewFile, claim_name, is_unfinished, unfinished_name, write_all
from trainfeed.storage import posix
from trainfeed.storage._atomic import temporary_path


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

    with pytest.raises(ConflictError, match="a exists by now"):
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
    by_now = [unfinished_name("shard-00000"), Path(temporary_path("/a/CURRENT")).name]
    before = [f"0123456789abcdef-g0001.{uuid.uuid4().hex}.tmp", f".CURRENT.{uuid.uuid4()}.tmp"]
    assert all(map(is_unfinished, by_now + before))
    assert len({unfinished_name("a") for _ in range(100)}) == 100
    finished = ["a", "a.tmp", f"{uuid.uuid4()}.tmp", f"a.{uuid.uuid4()}", by_now[0] + ".json"]
    assert not any(map(is_unfinished, finished))
