"""Kept code and lookups go once no plan names them; what a plan names meanwhile is put back."""

import os
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.upkeep.retention.test_superseded import prune_command
from trainfeed.core import faults
from trainfeed.pipeline.plan import plan
from trainfeed.upkeep.retention import Context, prune
from trainfeed.upkeep.retention import sweep as _kinds

LATER = datetime.now(UTC) + timedelta(days=4)
NOBODY = "0" * 64


def run(project, **options):
    return prune(Context.of(project.spec, project.env, now=LATER), **options)


@pytest.fixture
def built(project):
    """An interval, and one file of each folder that no plan names."""
    project.prebuilt()
    for path in (project.folder.code(NOBODY), project.folder.lookup(NOBODY)):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"{}")
    return project


def test_only_what_no_plan_names_goes_and_not_before_its_time(built):
    named = sorted(path.name for path in (built.folder.path / "code").iterdir())
    assert prune(Context.of(built.spec, built.env)).expired == ()
    assert [each.item.name for each in run(built, dry_run=True).expired] == [
        f"code/{NOBODY}.json",
        f"lookups/{NOBODY}",
    ]
    assert len(run(built).expired) == 2
    left = sorted(path.name for path in (built.folder.path / "code").iterdir())
    assert left == [name for name in named if not name.startswith(NOBODY)]
    assert len(left) == 1
    assert run(built).expired == ()


def test_a_plan_that_cannot_be_read_keeps_all(built):
    (plan_id,) = built.folder.plan_ids("2024-03-01")
    built.folder.plan("2024-03-01", plan_id).write_bytes(b"{")
    removals = run(built)
    assert removals.expired == ()
    assert any("may name it" in each.why for each in removals.kept if each.item.kind == "code")


def test_a_plan_between_the_look_and_the_removal_keeps_its_code(built, monkeypatch):
    code = built.folder.path / "code"
    (kept,) = (path for path in code.iterdir() if not path.name.startswith(NOBODY))
    data = kept.read_bytes()
    (plan_id,) = built.folder.plan_ids("2024-03-01")
    path = built.folder.plan("2024-03-01", plan_id)
    text = path.read_bytes()
    path.unlink()

    def plan_now(point):
        if point == "retention.after_aside" and not path.exists():
            assert not kept.exists()
            path.write_bytes(text)

    monkeypatch.setattr(faults, "point", plan_now)
    removals = run(built)
    assert [each.item.name for each in removals.expired if each.item.kind == "code"] == [
        f"code/{NOBODY}.json"
    ]
    assert kept.read_bytes() == data
    assert list(built.folder.trash.iterdir()) == []


def test_a_build_keeps_again_what_was_removed(built):
    (kept,) = (p for p in (built.folder.path / "code").iterdir() if not p.name.startswith(NOBODY))
    kept.unlink()
    plan(built.spec, built.interval("2024-03-02"), built.env)
    assert kept.exists()


def test_what_a_killed_run_left_in_the_trash_goes_with_the_next_one(built):
    old = time.time() - 4 * 86_400
    os.utime(built.folder.code(NOBODY), (old, old))
    killed = prune_command(built, "retention.after_aside")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(list(built.folder.trash.iterdir())) == 1
    (left, *_) = prune(Context.of(built.spec, built.env)).expired
    assert (left.item.kind, left.why) == ("trash", "a removal that was begun")
    assert list(built.folder.trash.iterdir()) == []
    assert built.folder.generations("2024-03-01") == [1]


def test_a_text_that_a_killed_run_hid_comes_back_if_a_plan_names_it(built):
    (kept,) = (p for p in (built.folder.path / "code").iterdir() if not p.name.startswith(NOBODY))
    lookup = built.folder.lookup(NOBODY)
    data, old = kept.read_bytes(), time.time() - 4 * 86_400
    (plan_id,) = built.folder.plan_ids("2024-03-01")
    path = built.folder.plan("2024-03-01", plan_id)
    text = path.read_bytes()
    path.unlink()
    for each in (kept, built.folder.code(NOBODY), lookup):
        os.utime(each, (old, old))
    killed = prune_command(built, "retention.after_aside")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not kept.exists()
    path.write_bytes(text)
    prune(Context.of(built.spec, built.env))
    assert kept.read_bytes() == data
    assert not built.folder.code(NOBODY).exists()
    assert list(built.folder.trash.iterdir()) == []


def test_all_kinds_have_names_of_their_own():
    names = [kind.name for kind in _kinds.KINDS]
    assert len(set(names)) == len(names)
