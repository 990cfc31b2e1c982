"""Copies that are killed at every step: absent or complete, and resumed without sending again."""

import hashlib
import os
import signal
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.forks import in_a_fork
from trainfeed.core import faults
from trainfeed.core.datacenters import PfsPath
from trainfeed.errors import (
    CommitUnknownError,
    ConflictError,
    FileReplacedError,
    QuotaExceededError,
    StorageError,
)
from trainfeed.serving.pfs.copy import copy_places
from trainfeed.serving.pfs.copy_plan import CopyOptions, Place, RateLimit, Stopped
from trainfeed.serving.pfs.posix import LocalTree, MountedTree
from trainfeed.serving.pfs.tree import CHUNK_BYTES, is_unfinished_name

HOME = PfsPath("dc1", "home", "alice", ())
CHUNKS = 4
DATA = b"".join(bytes([number]) * CHUNK_BYTES for number in range(1, CHUNKS)) + b"end"
SMALL = {f"small{number}": b"x" * number for number in range(5)}
STEPS = ("pfs.before_sync", "pfs.after_sync", "pfs.before_name", "pfs.named", "pfs.after_name")
NAMED = ("pfs.named", "pfs.after_name")
FOLDER_STEPS = (
    "pfs.folder_made",
    "pfs.small_written",
    "pfs.small_compared",
    *STEPS,
    "pfs.folder_filled",
    "pfs.folder_before_name",
    "pfs.folder_after_name",
)


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "inner/empty").mkdir(parents=True)
    (folder / "inner/large").write_bytes(DATA)
    for name, data in SMALL.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def copied(source, home, name="copy", **options):
    """Copy, and return the outcomes."""
    options = CopyOptions(is_recursive=True, **options)
    target = Place(MountedTree(home, HOME), (name,))
    return list(copy_places([Place(LocalTree(source), ())], target, options))


def one_file(source, home, **options):
    target = Place(MountedTree(home, HOME), ("copy",))
    place = Place(LocalTree(source), ("inner", "large"))
    return list(copy_places([place], target, CopyOptions(**options)))


def killed_at(point, act):
    def run():
        os.environ[faults.VARIABLE] = f"{point}:kill"
        faults._plan.cache_clear()
        act()

    assert in_a_fork(run) == -signal.SIGKILL


def final(folder):
    return sorted(path.name for path in folder.iterdir() if not is_unfinished_name(path.name))


def is_whole(home):
    tree = home / "copy"
    found = {path.name: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    return found == {**SMALL, "large": DATA} and (tree / "inner/empty").is_dir()


@pytest.mark.parametrize("index", range(CHUNKS))
def test_a_kill_at_a_chunk_leaves_no_file_and_the_next_try_sends_the_other_chunks(
    source, home, index
):
    killed_at(f"pfs.chunk_{index}", lambda: one_file(source, home, threads=1))
    assert final(home) == []
    (outcome,) = one_file(source, home)
    assert outcome.sent_bytes == len(DATA[(index + 1) * CHUNK_BYTES :])
    assert (home / "copy").read_bytes() == DATA
    assert [path.name for path in home.iterdir()] == ["copy"]


@pytest.mark.parametrize("point", STEPS)
def test_a_kill_after_the_last_chunk_leaves_no_file_or_all_of_it_and_nothing_is_sent_again(
    source, home, point
):
    killed_at(point, lambda: one_file(source, home))
    assert final(home) == (["copy"] if point in NAMED else [])
    (outcome,) = one_file(source, home)
    assert (outcome.sent_bytes, outcome.error) == (0, None)
    assert (home / "copy").read_bytes() == DATA
    assert [path.name for path in home.iterdir()] == ["copy"]


@pytest.fixture
def synced(monkeypatch):
    """Numbers of the folders that are synced from now on."""
    found, real = [], os.fsync

    def fsync(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            found.append(os.fstat(fd).st_ino)
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_a_copy_that_finds_the_name_of_a_killed_one_makes_the_name_durable(source, home, synced):
    killed_at("pfs.named", lambda: one_file(source, home))
    assert synced == []
    (outcome,) = one_file(source, home)
    assert outcome.verdict == "equal"
    assert synced == [home.stat().st_ino]


def test_small_files_that_a_killed_copy_has_named_get_durable_names_by_one_sync_of_each_folder(
    source, home, synced
):
    target = Place(MountedTree(home, HOME), ())
    (source / "inner/large").unlink()
    (source / "inner/below").write_bytes(b"x")

    def copy():
        place = Place(LocalTree(source), (), is_content=True)
        return list(copy_places([place], target, CopyOptions(is_recursive=True)))

    killed_at("pfs.small_named", copy)
    assert {outcome.verdict for outcome in copy()} == {"equal"}
    assert sorted(synced) == sorted([home.stat().st_ino, (home / "inner").stat().st_ino])


def test_the_name_of_a_folder_that_a_killed_copy_has_renamed_is_made_durable(source, home, synced):
    killed_at("pfs.renamed", lambda: copied(source, home))
    assert is_whole(home)
    place = Place(LocalTree(source), (), is_content=True)
    target = Place(MountedTree(home, HOME), ("copy",))
    outcomes = list(copy_places([place], target, CopyOptions(is_recursive=True)))
    assert {outcome.verdict for outcome in outcomes} == {"equal"}
    assert home.stat().st_ino in synced


def test_the_folder_of_the_file_that_a_link_of_this_machine_points_to_is_synced(tmp_path, synced):
    (tmp_path / "far").mkdir()
    (tmp_path / "far/file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("far/file")
    LocalTree(tmp_path).sync_names_of([("link",)])
    assert synced == [(tmp_path / "far").stat().st_ino]


@pytest.mark.parametrize("point", [*FOLDER_STEPS, *(f"pfs.chunk_{n}" for n in range(CHUNKS))])
def test_a_kill_in_the_copy_of_a_folder_leaves_no_folder_or_all_of_it(source, home, point):
    killed_at(point, lambda: copied(source, home, threads=1))
    is_named = point == "pfs.folder_after_name"
    assert final(home) == (["copy"] if is_named else [])
    assert is_whole(home) == is_named
    outcomes = copied(source, home)
    assert is_whole(home)
    assert [path.name for path in home.iterdir()] == ["copy"]
    large = next(each for each in outcomes if each.source.endswith("large"))
    sent = {f"pfs.chunk_{n}": len(DATA[(n + 1) * CHUNK_BYTES :]) for n in range(CHUNKS)}
    before = (*FOLDER_STEPS[:3],)
    assert large.sent_bytes == (len(DATA) if point in before else sent.get(point, 0))
    if point not in ("pfs.folder_made", "pfs.small_written"):
        assert sum(each.sent_bytes for each in outcomes if each is not large) == 0


def test_a_repeated_copy_of_a_folder_that_has_its_name_goes_below_it_as_with_cp(source, home):
    place = Place(LocalTree(source.parent), (source.name,))
    target = Place(MountedTree(home, HOME), ("copy",))

    def copy(place):
        outcomes = list(copy_places([place], target, CopyOptions(is_recursive=True)))
        return sum(outcome.sent_bytes for outcome in outcomes)

    killed_at("pfs.folder_after_name", lambda: copy(place))
    assert copy(replace(place, is_content=True)) == 0
    assert is_whole(home)
    assert copy(place) > 0
    assert (home / "copy/source/inner/large").read_bytes() == DATA


def test_a_rename_whose_answer_is_lost_says_how_the_copy_is_repeated(source, home, monkeypatch):
    real = MountedTree.rename

    def rename(*arguments, **options):
        real(*arguments, **options)
        raise StorageError("the answer was lost")

    monkeypatch.setattr(MountedTree, "rename", rename)
    outcomes = copied(source, home)
    assert isinstance(outcomes[-1].error, CommitUnknownError)
    assert f"repeat the command with {source}/. as its source" in str(outcomes[-1].error)
    assert is_whole(home)


def test_of_what_an_earlier_try_has_left_only_wrong_chunks_are_sent_again(source, home):
    killed_at("pfs.before_sync", lambda: one_file(source, home))
    (unfinished,) = home.iterdir()
    with unfinished.open("r+b") as file:
        file.seek(CHUNK_BYTES + 7)
        file.write(b"damaged")
    (outcome,) = one_file(source, home)
    assert outcome.sent_bytes == CHUNK_BYTES
    assert (home / "copy").read_bytes() == DATA


def test_a_folder_that_a_dead_copy_has_left_loses_what_the_source_does_not_have(source, home):
    killed_at("pfs.folder_filled", lambda: copied(source, home))
    (source / "small1").unlink()
    (source / "small2").write_bytes(b"other")
    copied(source, home)
    assert not (home / "copy/small1").exists()
    assert (home / "copy/small2").read_bytes() == b"other"


@pytest.mark.parametrize("point", ["pfs.small_written", "pfs.after_name"])
def test_a_file_that_a_kill_has_cut_is_sent_again_although_nothing_is_to_be_replaced(
    source, home, point
):
    killed_at(point, lambda: copied(source, home, replace=False, threads=1))
    (hidden,) = home.iterdir()
    (hidden / "small3").write_bytes(b"x")
    if (hidden / "inner/large").exists():
        (hidden / "inner/large").write_bytes(DATA[:-3] + b"END")
    outcomes = copied(source, home, replace=False)
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    assert is_whole(home)


def test_what_became_of_another_kind_in_the_source_is_replaced_in_the_unfinished_folder(
    source, home
):
    killed_at("pfs.folder_filled", lambda: copied(source, home))
    (source / "small1").unlink()
    (source / "small1").mkdir()
    (source / "inner/empty").rmdir()
    (source / "inner/empty").write_bytes(b"a file now")
    outcomes = copied(source, home)
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    assert (home / "copy/small1").is_dir()
    assert (home / "copy/inner/empty").read_bytes() == b"a file now"
    assert final(home) == ["copy"]


def test_a_source_that_changes_during_the_copy_is_an_error_and_nothing_is_named(source, home):
    large = source / "inner/large"

    def change(_):
        with large.open("r+b") as file:
            file.write(b"new")
        os.utime(large, ns=(0, 5))

    (outcome,) = one_file(source, home, tell=change, threads=1)
    assert isinstance(outcome.error, FileReplacedError)
    assert final(home) == []


def test_a_folder_with_a_file_that_fails_is_not_named_and_the_next_try_goes_on(source, home):
    (source / "inner/link").symlink_to("large")
    outcomes = copied(source, home)
    assert [outcome.verdict for outcome in outcomes].count("failed") == 2
    assert "no name yet, because 1 files" in str(outcomes[-1].error)
    assert final(home) == []
    (source / "inner/link").unlink()
    again = copied(source, home)
    assert sum(outcome.sent_bytes for outcome in again) == 0
    assert is_whole(home)


def test_a_full_quota_ends_the_copy_with_one_message_and_keeps_what_was_sent(
    source, home, monkeypatch
):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: _full() if at else real(fd, data, at))
    with pytest.raises(QuotaExceededError, match="what was sent is kept") as found:
        one_file(source, home, threads=1)
    assert "pfs://home" in str(found.value)
    assert final(home) == []
    monkeypatch.setattr(os, "pwrite", real)
    (outcome,) = one_file(source, home)
    assert outcome.sent_bytes == len(DATA) - CHUNK_BYTES


def _full():
    raise OSError(122, "Disk quota exceeded")


def test_a_copy_that_is_stopped_ends_at_the_next_chunk_and_goes_on_in_the_next_try(source, home):
    options = CopyOptions(threads=1)
    done = []

    def tell(num_bytes):
        done.append(num_bytes)
        stopping.stop.set()

    stopping = CopyOptions(threads=1, tell=tell, stop=options.stop)
    target = Place(MountedTree(home, HOME), ("copy",))
    place = Place(LocalTree(source), ("inner", "large"))
    with pytest.raises(Stopped):
        list(copy_places([place], target, stopping))
    assert (done, final(home)) == ([CHUNK_BYTES], [])
    (outcome,) = one_file(source, home)
    assert outcome.sent_bytes == len(DATA) - CHUNK_BYTES


def test_a_process_does_not_copy_one_folder_twice_at_once(source, home):
    inner = []

    def meanwhile(_):
        if not inner:
            inner.append(None)
            inner[0] = copied(source, home)

    outcomes = copied(source, home, tell=meanwhile)
    assert isinstance(inner[0][0].error, ConflictError)
    assert {outcome.verdict for outcome in outcomes} == {"copied"}
    assert is_whole(home)


def test_a_name_that_is_taken_during_the_copy_of_a_folder_is_kept(source, home):
    def take(_):
        (home / "copy").mkdir(exist_ok=True)
        (home / "copy/mine").write_text("mine")

    outcomes = copied(source, home, tell=take)
    assert isinstance(outcomes[-1].error, ConflictError)
    assert [path.name for path in (home / "copy").iterdir()] == ["mine"]


def test_two_copies_of_different_sources_to_one_name_end_with_one_of_them_whole(source, home):
    other = source / "other"
    other.write_bytes(DATA[::-1])
    target = Place(MountedTree(home, HOME), ("copy",))
    inner = []

    def meanwhile(_):
        if not inner:
            inner.append(None)
            inner[0] = list(
                copy_places([Place(LocalTree(source), ("other",))], target, CopyOptions())
            )

    one_file(source, home, tell=meanwhile, threads=1)
    assert inner[0][0].verdict == "copied"
    assert hashlib.sha256((home / "copy").read_bytes()).digest() in {
        hashlib.sha256(data).digest() for data in (DATA, DATA[::-1])
    }
    assert [path.name for path in home.iterdir()] == ["copy"]


class TestRate:
    def test_all_threads_together_keep_to_the_limit(self):
        now = [100.0]
        limit = RateLimit(10, clock=lambda: now[0])
        assert limit.reserve(5) == 0
        assert limit.reserve(5) == pytest.approx(0.5)
        assert limit.reserve(10) == pytest.approx(1.0)
        now[0] += 60
        assert limit.reserve(10) == 0

    def test_a_pause_is_not_made_good_later(self):
        now = [0.0]
        limit = RateLimit(10, clock=lambda: now[0])
        now[0] += 1000
        assert [limit.reserve(10) for _ in range(3)] == pytest.approx([0, 0.9, 1.9])

    def test_without_a_limit_nothing_waits(self):
        limit = RateLimit()
        assert [limit.reserve(1 << 40) for _ in range(3)] == [0, 0, 0]


def test_paths_in_outcomes_of_a_new_folder_are_those_after_the_rename(source, home):
    targets = {outcome.target for outcome in copied(source, home)}
    assert targets == {
        "pfs://home/copy/inner/large",
        *(f"pfs://home/copy/{name}" for name in SMALL),
    }
    assert all((home / Path(target.removeprefix("pfs://home/"))).is_file() for target in targets)
