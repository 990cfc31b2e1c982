"""Unfinished files of builds go by the rule ``work``; what a build may still touch stays."""

import errno
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trainfeed.core import faults
from trainfeed.errors import ConfigError
from trainfeed.upkeep.retention import Context, execute, plan_removals
from trainfeed.upkeep.retention.leftovers import WorkFiles

NOW = datetime(2024, 6, 1, tzinfo=UTC)
KINDS = (WorkFiles(),)
OURS, FOREIGN = "0123456789abcdef-g0001", "fedcba9876543210-g0001"


def put(path, age):
    """Make a folder with one file of 10 bytes, not changed for ``age`` days."""
    path.mkdir(parents=True)
    (path / "part").write_bytes(b"x" * 10)
    at = (NOW - timedelta(days=age)).timestamp()
    for each in (path / "part", path):
        os.utime(each, (at, at))
    return path


@pytest.fixture
def left(project):
    """Old work of this data set, its trash, younger work, and work of another data set."""
    project.edit("seed: 7", "seed: 7\nretention: {work: {keep_days: 5}}")
    plans = project.folder.plans("2024-03-01")
    plans.mkdir(parents=True)
    (plans / f"{OURS}.json").write_text("{}")
    spill, folder = Path(project.env.work) / "spill", project.folder
    old = [put(folder.staged(OURS), 9), put(spill / OURS, 9), put(folder.trash / ("a" * 32), 9)]
    stay = [put(folder.staged("0123456789abcdef-g0002"), 3), put(spill / FOREIGN, 9)]
    return project, old, stay


def prune(project, *, dry_run=False):
    context = Context.of(project.spec, project.env, now=NOW)
    removals = plan_removals(context, KINDS)
    return removals if dry_run else execute(context, KINDS, removals)


def test_work_with_a_time_in_the_future_is_said_to_have_one(left):
    project, old, _ = left
    project.edit("keep_days: 5", "keep: 1")
    later = (NOW + timedelta(days=400)).timestamp()
    for each in old[:2]:
        os.utime(each, (later, later))
    (kept,) = [each for each in prune(project, dry_run=True).kept if "2025-07-06" in each.why]
    assert "future" in kept.why
    assert "ago" not in kept.why


def test_work_of_a_build_that_began_after_this_run_is_in_use_and_no_clock_is_wrong(left):
    project, (staged, *_), _ = left
    project.edit("keep_days: 5", "keep: 1")
    later = (NOW + timedelta(minutes=5)).timestamp()
    os.utime(staged, (later, later))
    fresh = put(project.folder.staged("0123456789abcdef-g0003"), -0.005)
    kept = {each.item.name: each.why for each in prune(project, dry_run=True).kept}
    assert kept == {f"_staging/{OURS}": "it changed less than a day ago: a build may work on it"}
    assert fresh.exists()


def test_old_work_of_this_data_set_goes(left):
    project, old, stay = left
    planned = prune(project, dry_run=True)
    assert all(path.exists() for path in old)
    removals = prune(project)
    assert removals == planned
    assert removals.num_bytes == 30
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in stay)
    assert prune(project).expired == ()


def test_without_a_rule_work_is_left_to_gc(left):
    project, *_ = left
    project.edit("retention: {work: {keep_days: 5}}", "")
    assert prune(project).expired == ()


def test_a_limit_of_bytes_takes_nothing_that_a_build_may_work_on(left):
    project, old, _ = left
    project.edit("keep_days: 5", "max_bytes: 1")
    fresh = put(project.folder.staged("0123456789abcdef-g0003"), 0.5)
    removals = prune(project)
    assert not any(path.exists() for path in old)
    assert fresh.exists()
    assert [each.item.name for each in removals.kept] == [f"_staging/{fresh.name}"]
    assert [each.num_bytes for each in removals.excess] == [10]


def test_work_that_changes_between_plan_and_removal_stays(left):
    project, (staged, *_), _ = left
    context = Context.of(project.spec, project.env, now=NOW)
    removals = plan_removals(context, KINDS)
    (staged / "part").write_bytes(b"again")
    done = execute(context, KINDS, removals)
    assert (staged / "part").read_bytes() == b"again"
    assert [each.item.name for each in done.kept] == [f"_staging/{OURS}"]


@pytest.mark.parametrize("point", ["discard.after_rename", "work.after_item"])
def test_a_killed_removal_is_completed_by_a_later_call(left, point, monkeypatch):
    project, old, stay = left

    class Killed(BaseException):
        pass

    def kill(name):
        if name == point:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", kill)
        with pytest.raises(Killed):
            prune(project)
    prune(project)
    assert not any(path.exists() for path in [*old, *project.folder.trash.iterdir()])
    assert all(path.exists() for path in stay)


@pytest.mark.parametrize("kind", ["boundaries"])
def test_a_rule_that_nothing_would_apply_is_refused(project, kind):
    project.edit("seed: 7", f"seed: 7\nretention: {{{kind}: {{keep: 3}}}}")
    with pytest.raises(ConfigError, match=kind):
        _ = project.spec


def test_work_of_which_a_snapshot_is_kept_stays_and_the_rest_goes(left, monkeypatch):
    project, old, _ = left
    remove, kept = shutil.rmtree, []

    def rmtree(path, *rest, **options):
        if not kept or Path(path) in kept:
            kept.append(Path(path))
            (Path(path) / ".snap" / "keep").mkdir(parents=True, exist_ok=True)
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))
        remove(path, *rest, **options)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    done = prune(project)
    assert any("/.snap/keep" in each.why for each in done.kept)
    assert kept[0].exists()
    assert not any(path.exists() for path in old if path != kept[0])
