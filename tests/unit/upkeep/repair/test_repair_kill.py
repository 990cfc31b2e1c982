"""SIGKILL at every point of a repair: no reader gets wrong bytes, and the retry completes."""

import os
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support import warm
from tests.unit.fault_points import points_in
from tests.unit.pipeline.test_kill import variables
from tests.unit.processes import LIMIT_S
from tests.unit.upkeep.repair.conftest import contents, flip, repaired, shards
from trainfeed.errors import FormatError, NotFoundError, StorageError
from trainfeed.pipeline.leftovers import sweep
from trainfeed.upkeep.repair import files as _file_repair
from trainfeed.upkeep.repair import repairing
from trainfeed.upkeep.repair.repairing import NamedFiles
from trainfeed.versions import Version
from trainfeed.versions.history import actions

ROOT = Path(__file__).parents[4]
DAY = "2024-03-01"
LONG_AGO = 1_700_000_000
POINTS = [
    "history.after_action",
    "repair.before_trash",
    "repair.after_trash",
    "repair.after_ingest",
    "repair.after_shard",
    "repair.before_swap",
    "repair.after_swap",
]
MANIFEST_POINTS = ["repair.before_manifest", "repair.between_manifests"]


REPAIR = ("repair", f"clicks/{DAY}/g0001", "--json")


def killed_at(project, point):
    """Repair as a fork of the warm interpreter; return how it ended."""
    return warm.command(*REPAIR, env=variables(project, point)).returncode


def start(project):
    return subprocess.Popen(
        [sys.executable, "-m", "trainfeed", *REPAIR],
        env=variables(project),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    process.communicate(timeout=LIMIT_S)
    return process.returncode


def damage(project):
    path = project.folder.version(DAY, 1)
    flip(path / shards(project)[1])
    (path / "CHUNKS.arrow").unlink()
    (path / "notes.txt").write_text("x")
    return path


@pytest.mark.parametrize("point", POINTS)
def test_a_repair_that_was_killed_is_completed_by_the_next(published, point):
    before = contents(published)
    path = damage(published)
    os.utime(path, (LONG_AGO, LONG_AGO))
    damaged = contents(published)
    assert killed_at(published, point) == -9
    # Every file is the damaged one, gone, or the published one; nothing else has appeared.
    for name, found in contents(published).items():
        assert found in {before.get(name), damaged.get(name)}
    assert repaired(published).is_whole
    assert contents(published) == before
    Version.open(path).verify()
    # The history ends with all that was done, and retention knows the age of the version.
    *begun, last = actions(published.folder)
    assert {each.action for each in begun} == {"repair"}
    assert (last.action, set(last.details["files"].values())) == ("repaired", {"repaired"})
    assert last.details["files"].keys() == begun[0].details["files"].keys()
    assert path.stat().st_mtime == LONG_AGO


def test_a_repair_that_was_killed_after_its_last_change_is_ended_once_by_the_next(published):
    path = published.folder.version(DAY, 1)
    os.utime(path, (LONG_AGO, LONG_AGO))
    name = shards(published)[1]
    flip(path / name)
    assert killed_at(published, "repair.after_swap") == -9
    for _ in range(2):
        report = repaired(published)
        assert (report.is_whole, report.files) == (True, ())
        began, last = actions(published.folder)
        assert (last.action, last.details["files"]) == ("repaired", {name: "repaired"})
        assert (last.target, last.why) == (began.target, began.why)
        assert path.stat().st_mtime == LONG_AGO


def test_what_a_manifest_that_is_back_shows_is_in_the_history_before_it_is_repaired(published):
    path, shard = published.folder.version(DAY, 1), shards(published)[1]
    flip(path / shard)
    flip(path / "MANIFEST.json")
    assert killed_at(published, "repair.after_swap") == -9
    assert repaired(published).files == ()
    last = list(actions(published.folder))[-1]
    assert last.action == "repaired"
    assert last.details["files"] == dict.fromkeys(("MANIFEST.json", shard), "repaired")


def test_no_file_counts_as_repaired_while_no_manifest_says_what_it_should_be(published):
    path, shard = published.folder.version(DAY, 1), shards(published)[1]
    flip(path / shard)
    assert killed_at(published, "history.after_action") == -9
    for name in ("MANIFEST.json", "MANIFEST.sha256"):
        (path / name).unlink()
    assert not repaired(published, 1).is_whole
    last = list(actions(published.folder))[-1]
    assert last.action == "repair-failed"
    assert last.details["files"] == {
        "MANIFEST.json": "not repaired",
        "MANIFEST.sha256": "not repaired",
        shard: "not compared",
    }


def test_all_files_are_counted_although_the_history_names_only_the_first(published, monkeypatch):
    monkeypatch.setattr(repairing, "_MOST_FILES", 2)
    path = published.folder.version(DAY, 1)
    extra = [path / f"notes-{number}.txt" for number in range(5)]
    for each in extra:
        each.write_text("x")
    with monkeypatch.context() as patch:
        patch.setattr(_file_repair.FileRepair, "repaired", _refuse)
        with pytest.raises(StorageError):
            repaired(published)
    for each in extra[:3]:
        each.unlink()
    (path / "another.txt").write_text("x")
    assert repaired(published).is_whole
    last = list(actions(published.folder))[-1]
    assert last.details["num_files"] == 6
    assert list(last.details["files"]) == ["another.txt", "notes-0.txt"]


def _refuse(*_):
    raise StorageError("refused")


@pytest.mark.parametrize(
    ("one", "other", "number"),
    [
        (NamedFiles(), NamedFiles.of("ab"), 2),
        (NamedFiles(("a", "b"), 5), NamedFiles(), 5),
        (NamedFiles(("a", "b"), 5), NamedFiles.of("cde"), 5),
        (NamedFiles(("a", "b"), 5), NamedFiles.of("e"), 5),
        (NamedFiles(("b", "c"), 5), NamedFiles.of("ae"), 6),
        (NamedFiles(("a", "b"), 3), NamedFiles.of("cde"), 5),
        (NamedFiles(("a", "b"), 5), NamedFiles(("c", "d"), 3), 5),
    ],
)
def test_files_of_two_repairs_are_counted_once(one, other, number):
    assert (one | other).number == (other | one).number == number


def test_a_repair_of_one_version_does_not_end_that_of_another(published):
    published.build(rebuild="again")
    flip(published.folder.version(DAY, 1) / shards(published)[1])
    assert killed_at(published, "repair.after_swap") == -9
    assert repaired(published, 2).is_whole
    assert [each.action for each in actions(published.folder)] == ["repair"]


@pytest.mark.parametrize("point", MANIFEST_POINTS)
def test_a_manifest_is_refused_or_right_when_its_repair_is_killed(published, point):
    before = contents(published)
    path = published.folder.version(DAY, 1)
    flip(path / "MANIFEST.json")
    assert killed_at(published, point) == -9
    with suppress(FormatError, NotFoundError):
        Version.open(path).verify()
    assert repaired(published).is_whole
    assert contents(published) == before


def test_what_a_kill_leaves_behind_is_swept(published):
    damage(published)
    assert killed_at(published, "repair.after_shard") == -9
    left = [*published.folder.staging.glob("repair-*"), *(published.path / "work/spill").iterdir()]
    assert len(left) == 2
    sweep(published.env, older_than=timedelta(0))
    assert not any(path.exists() for path in left)


def test_every_point_of_a_repair_is_killed_at():
    named = {*POINTS, *MANIFEST_POINTS} - {"history.after_action"}
    # Those of a root in a bucket: integration/s3/test_upkeep_of_a_bucket.py.
    assert points_in("upkeep/repair") == named | points_in("upkeep/repair/bucket.py")


def test_two_repairs_at_once_end_with_the_published_bytes(published):
    before = contents(published)
    damage(published)
    processes = [start(published) for _ in range(2)]
    assert [ended(process) for process in processes] == [0, 0]
    assert contents(published) == before
    assert not list(published.folder.staging.glob("repair-*"))


def test_a_reader_with_the_file_open_keeps_it_and_the_next_one_reads_what_was_published(
    published,
):
    before = contents(published)
    name = shards(published)[1]
    path = damage(published)
    with (path / name).open("rb") as file:
        wrong = file.read(10)
        repaired(published)
        file.seek(0)
        assert file.read(10) == wrong
    assert (path / name).read_bytes() == before[name][0]


def test_an_observer_never_sees_other_bytes_than_the_damaged_and_the_published_ones(published):
    before = contents(published)
    path = damage(published)
    name = next(each for each in before if "-train-00000" in each)
    seen, stop = set(), threading.Event()

    def watch():
        while not stop.is_set():
            seen.add((path / name).read_bytes())

    wrong = (path / name).read_bytes()
    thread = threading.Thread(target=watch)
    thread.start()
    repaired(published)
    stop.set()
    thread.join()
    assert seen <= {wrong, before[name][0]}


def test_a_version_that_retention_takes_meanwhile_is_told(published, monkeypatch, tmp_path):
    path = damage(published)
    (path / "notes.txt").unlink()
    real = _file_repair.rebuild

    def taken(*arguments):
        done = real(*arguments)
        path.rename(tmp_path / "trash")
        return done

    monkeypatch.setattr(_file_repair, "rebuild", taken)
    with pytest.raises(NotFoundError):
        repaired(published)
    assert not path.exists()
