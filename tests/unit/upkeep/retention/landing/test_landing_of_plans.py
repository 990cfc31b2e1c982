"""Landing files of plans: given up, made in the meantime, not readable, or of another root."""

import os
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.upkeep.retention.landing.landings import (
    DAY,
    KINDS,
    NOW,
    found,
    landed,
    names,
    prune,
)
from trainfeed.pipeline import Build
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.local import build
from trainfeed.pipeline.plan import plan
from trainfeed.upkeep.retention import KINDS as ALL
from trainfeed.upkeep.retention import execute
from trainfeed.upkeep.retention import prune as prune_all
from trainfeed.versions import init_root


@pytest.fixture
def planned(built):
    """A rebuild that was planned, landed one file of its own, and stopped; its plan file."""
    built.edit("seed: 7", "seed: 7\nresources: {records_per_task: 25}")
    made = plan(built.spec, built.interval(), built.env, rebuild="changed labels")
    ingest(Build(built.spec, built.env, made.ref), 0)
    assert len(landed(built)) > 6
    return built.folder.plan(DAY, made.ref.plan_id)


def aged(path, **age):
    at = (NOW - timedelta(**age)).timestamp()
    os.utime(path, (at, at))


def rules(project, text):
    project.edit("landing: {keep_days: 30}", f"landing: {{keep: 100}}, plans: {{{text}}}")


def removed(project):
    shutil.rmtree(project.folder.version(DAY, 1))
    project.folder.removal_mark(DAY, 1).touch()


def test_files_of_a_plan_that_is_given_up_go_before_the_plan(built, planned):
    rules(built, "keep_days: 5")
    aged(planned, days=4)
    assert prune(built).expired == ()
    context, _ = found(built, NOW + timedelta(days=2))
    first = prune_all(context, ALL)
    assert names(first.expired) == [f"{DAY} (given up)"]
    assert "plans.keep_days: 5" in first.expired[0].why
    assert "its landing files go first" in first.kept[0].why
    assert len(landed(built)) == 6
    assert names(prune_all(context, ALL).expired) == [f"{DAY}/{planned.stem}"]


@pytest.mark.parametrize(
    ("rule", "days"), [("keep: 100, keep_days: 5", 6), ("keep_days: 1", 2)], ids=["keep", "young"]
)
def test_files_of_a_plan_that_stays_stay(built, planned, rule, days):
    rules(built, rule)
    aged(planned, days=days)
    before = landed(built)
    assert prune(built).expired == ()
    assert landed(built) == before


def test_files_of_an_old_plan_with_a_young_waiver_stay(built, planned):
    rules(built, "keep_days: 5")
    aged(planned, days=6)
    context, removals = found(built)
    assert names(removals.expired) == [f"{DAY} (given up)"]
    waiver = planned.with_name(f"{planned.stem}.waive-0001.json")
    waiver.write_text("{}")
    aged(waiver, hours=2)
    before = landed(built)
    assert execute(context, KINDS, removals).expired == ()
    assert prune(built).expired == ()
    assert landed(built) == before


def test_a_plan_made_after_the_look_keeps_files_of_a_removed_generation(built):
    removed(built)
    context, removals = found(built)
    assert names(removals.expired) == [f"{DAY} (superseded)"]
    plan(built.spec, built.interval(), built.env, rebuild="changed labels")
    before = landed(built)
    done = execute(context, KINDS, removals)
    assert done.expired == ()
    assert "may still be published" in done.kept[0].why
    assert landed(built) == before


def test_without_a_rule_files_stay_that_another_root_may_want(built):
    root = built.path / "root2"
    init_root(root)
    env = replace(built.env, root=str(root), work=str(built.path / "work2"))
    build(built.spec, built.interval(), env)
    built.edit("landing: {keep_days: 30}", "keep_generations: 3")
    removed(built)
    before = landed(built)
    removals = prune(built)
    assert removals.expired == ()
    assert "another publication root" in removals.kept[0].why
    assert landed(built) == before


def test_files_of_a_generation_whose_removal_was_killed_stay_until_it_is_gone(built):
    built.folder.removal_mark(DAY, 1).touch()
    assert f"{DAY} (superseded)" not in names(found(built)[1].expired)


def test_a_plan_that_cannot_be_read_is_told(built):
    next(Path(built.folder.plans(DAY)).glob("*-g0001.json")).write_bytes(b"{")
    kept = found(built)[1].kept
    assert names(kept) == [f"{DAY} (unreadable plan)"]
    assert "cannot be read" in kept[0].why
