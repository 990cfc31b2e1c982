"""Landing files go when no plan, rule, tag or other data set wants them."""

import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import batch, day
from tests.unit.upkeep.retention.landing.landings import (
    DAY,
    KINDS,
    NOW,
    found,
    landed,
    names,
    prune,
)
from trainfeed.core import faults
from trainfeed.errors import NotFoundError, TrainFeedError
from trainfeed.pipeline.leftovers import sweep
from trainfeed.pipeline.plan import plan
from trainfeed.upkeep.retention import execute


def test_files_go_days_after_the_publication_and_the_others_stay(built):
    before = {path: path.stat().st_size for path in landed(built)}
    removals = prune(built)
    assert names(removals.expired) == [DAY]
    gone = before.keys() - set(landed(built))
    assert removals.num_bytes == sum(before[path] for path in gone)
    assert len(gone) == 3
    built.version().verify()
    assert names(prune(built).expired) == []


def test_without_a_rule_every_published_landing_file_stays(built):
    built.edit("landing: {keep_days: 30}", "keep_generations: 3")
    before = landed(built)
    assert prune(built, NOW + timedelta(days=4000)).expired == ()
    assert landed(built) == before


def test_a_dry_run_finds_what_a_run_removes(built):
    before = landed(built)
    _, removals = found(built)
    assert names(removals.expired) == [DAY]
    assert landed(built) == before
    assert prune(built) == removals


def test_files_of_a_plan_that_may_still_be_published_stay(built):
    plan(built.spec, built.interval(), built.env, rebuild="changed labels")
    removals = prune(built)
    assert removals.expired == ()
    assert "may still be published" in removals.kept[0].why


def test_a_plan_made_between_the_look_and_the_removal_keeps_its_files(built):
    context, removals = found(built)
    plan(built.spec, built.interval(), built.env, rebuild="changed labels")
    before = landed(built)
    done = execute(context, KINDS, removals)
    assert done.expired == ()
    assert "may still be published" in done.kept[0].why
    assert landed(built) == before


def test_files_of_removed_generations_go_at_once(built):
    shutil.rmtree(built.folder.version(DAY, 1))
    built.folder.removal_mark(DAY, 1).touch()
    removals = prune(built)
    assert names(removals.expired) == [f"{DAY} (superseded)"]
    assert len(landed(built)) == 3


def test_files_of_a_plan_that_cannot_be_read_stay_and_the_reason_is_said(built):
    path = next(built.folder.plans(DAY).glob("*-g0001.json"))
    plan(built.spec, built.interval(), built.env, rebuild="changed labels")
    path.write_bytes(b"{")
    removals = prune(built)
    assert removals.expired == ()
    # Nothing that is known says which files the plan names: they are not even candidates.
    assert len(landed(built)) == 6


def test_files_that_another_data_set_reads_stay_until_that_one_releases_them(built):
    other = another(built)
    removals = prune(built)
    assert removals.expired == ()
    assert "data set others reads them too" in removals.kept[0].why
    path = built.env.datasets / "others" / "dataset.yaml"
    path.write_text(path.read_text().replace("keep_generations: 3", "landing: {keep_days: 30}"))
    at = (NOW - timedelta(days=35)).timestamp()
    os.utime(other / "versions" / DAY / "g0001", (at, at))
    assert names(prune(built).expired) == [DAY]


def test_files_stay_where_the_other_data_set_cannot_be_read(built):
    another(built)
    (built.env.datasets / "others" / "dataset.yaml").write_text("name: [")
    assert prune(built).expired == ()


def another(project):
    """A second data set over the same topic, built for the same day; return its folder."""
    datasets = project.env.datasets
    shutil.copytree(datasets / "clicks", datasets / "others")
    path = datasets / "others" / "dataset.yaml"
    text = path.read_text().replace("name: clicks", "name: others", 1)
    path.write_text(text.replace("landing: {keep_days: 30}", "keep_generations: 3"))
    from trainfeed.pipeline.local import build
    from trainfeed.specification import load_spec

    spec = load_spec(datasets / "others")
    build(spec, spec.schedule_model().interval_named(DAY), project.env)
    return Path(project.env.root) / "others"


def test_an_interval_with_removed_files_is_built_again_from_the_source(built):
    prune(built)
    report = built.build(rebuild="changed labels")
    assert report["source_reads"] > 0
    assert len(landed(built)) == 6


def test_where_the_source_lost_the_records_too_the_error_names_the_removal(built):
    prune(built)
    late = day(1, 40)
    built.record({p: [batch(late, first=60 + p)] for p in range(3)})
    built.edit("seed: 7", "seed: 8")
    with pytest.raises(TrainFeedError, match=r"retention removed 3 landing files .*keep_days: 30"):
        built.build(rebuild="changed seed")


def test_a_replay_says_that_retention_removed_the_files(built):
    prune(built)
    built.edit("return Filtered", "return  Filtered", file="preprocess.py")
    with pytest.raises(NotFoundError, match=r"on 2024-06-01T00:00:00Z \(keep_days: 30\)"):
        built.build(replay=True)


@pytest.mark.parametrize("point", ["landing.after_note", "landing.after_rename"])
def test_a_killed_removal_is_completed_by_the_next_call(built, point, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(name):
        if name == point:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", kill)
        with pytest.raises(Killed):
            prune(built)
    prune(built)
    sweep(built.env, older_than=timedelta(0))
    landing = Path(built.env.landing)
    assert len(landed(built)) == 3
    assert list((landing / "+trash").iterdir()) == []
