"""A build over an outdated version fails, keeps it, or builds the next generation."""

from __future__ import annotations

import shutil

import pytest

from tests.unit.pipeline.clicks import batch, day
from tests.unit.pipeline.log_project import make_log_project
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    NotFoundError,
    SourceReplacedError,
    TopicNotFoundError,
)
from trainfeed.pipeline import OutdatedRule, PlanRef
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.preview import describe, dry_run

DAY = "2024-03-01"
CAUSES = "outdated: spec.seed: 7 → 8"


@pytest.fixture
def outdated(project):
    """The data set with one interval, whose seed was changed after its publication."""
    project.prebuilt()
    project.edit("seed: 7", "seed: 8")
    return project


@pytest.fixture
def log_project(tmp_path):
    return make_log_project(tmp_path)


def supersedes(project):
    return project.version().manifest.supersedes


def test_without_a_rule_it_fails_and_the_message_has_every_way_on(outdated):
    with pytest.raises(ConflictError) as refused:
        outdated.build()
    for way in ("spec.seed: 7 → 8", "--outdated keep", "--outdated rebuild", "--rebuild WHY"):
        assert way in str(refused.value)
    assert outdated.folder.last_generation(DAY) == 1


def test_keep_ends_with_the_published_version_and_says_so(outdated, caplog):
    before = outdated.version()
    report = outdated.build(outdated=OutdatedRule.KEEP)
    assert (report["verdict"], report["generation"]) == ("kept", "g0001")
    assert report["source_reads"] == 0
    note = "g0001 is outdated and kept, nothing is built: spec.seed: 7 → 8"
    assert report["note"] == note
    assert note in caplog.text
    assert outdated.folder.last_generation(DAY) == 1
    assert outdated.version().manifest_sha256 == before.manifest_sha256


@pytest.mark.parametrize("rule", [OutdatedRule.KEEP, OutdatedRule.REBUILD])
def test_the_rules_leave_what_is_current(project, rule):
    project.build()
    assert project.build(outdated=rule)["verdict"] == "identical"
    assert project.build(outdated=rule, **reason_for(rule))["verdict"] == "identical"
    assert project.folder.last_generation(DAY) == 1


def reason_for(rule):
    return {"rebuild": "new labels"} if rule is OutdatedRule.REBUILD else {}


@pytest.mark.parametrize("rule", list(OutdatedRule))
def test_the_rules_build_what_is_not_published(project, rule):
    assert project.build(outdated=rule)["verdict"] == "built"
    assert supersedes(project) is None


def test_rebuild_makes_the_next_generation_with_the_causes_and_then_nothing(outdated):
    report = outdated.build(outdated=OutdatedRule.REBUILD)
    assert (report["verdict"], report["generation"]) == ("built", "g0002")
    assert supersedes(outdated) == {"generation": 1, "why": CAUSES}
    assert outdated.build(outdated=OutdatedRule.REBUILD)["verdict"] == "identical"
    assert outdated.build()["verdict"] == "identical"
    assert outdated.folder.last_generation(DAY) == 2


def test_a_reason_of_a_person_stands_before_the_causes(outdated):
    outdated.build(outdated=OutdatedRule.REBUILD, rebuild="the seed was the year")
    assert supersedes(outdated)["why"] == f"the seed was the year ({CAUSES})"


def test_keep_contradicts_a_rebuild(outdated):
    with pytest.raises(ConfigError, match="expected a rebuild or outdated: keep, got both"):
        outdated.build(outdated=OutdatedRule.KEEP, rebuild="why")


def test_a_replay_contradicts_the_rules(outdated):
    with pytest.raises(ConfigError, match="expected a replay or outdated: rebuild, got both"):
        outdated.build(outdated=OutdatedRule.REBUILD, replay=True)


@pytest.mark.parametrize("rule", [OutdatedRule.KEEP, OutdatedRule.REBUILD])
def test_no_rule_decides_about_a_topic_that_was_replaced(outdated, rule):
    outdated.record(
        {p: [batch(day(0, 9))] for p in range(3)}, uuid="22222222-2222-4222-8222-222222222222"
    )
    with pytest.raises(SourceReplacedError, match=r"were replaced: .* --rebuild WHY"):
        outdated.build(outdated=rule)
    assert outdated.folder.last_generation(DAY) == 1


@pytest.mark.parametrize("rule", [OutdatedRule.KEEP, OutdatedRule.REBUILD])
def test_no_rule_decides_about_a_log_file_that_is_gone(log_project, rule):
    log_project.build()
    first, *_ = sorted(path for path in log_project.logs.iterdir() if not path.name.startswith("_"))
    first.unlink()
    with pytest.raises(SourceReplacedError, match="it is gone"):
        log_project.build(outdated=rule)
    assert log_project.folder.last_generation(DAY) == 1


def test_without_its_source_a_version_is_kept_and_not_rebuilt(outdated):
    shutil.rmtree(outdated.path / "recorded")
    assert outdated.build(outdated=OutdatedRule.KEEP)["verdict"] == "kept"
    with pytest.raises(TopicNotFoundError):
        outdated.build(outdated=OutdatedRule.REBUILD)


def test_without_its_source_a_current_version_is_identical(project):
    project.build()
    shutil.rmtree(project.path / "recorded")
    report = project.build(outdated=OutdatedRule.REBUILD, rebuild="new labels")
    assert report["verdict"] == "identical"


def test_a_version_without_its_plan_cannot_be_kept_by_a_run(outdated):
    outdated.folder.plan(DAY, outdated.version().manifest.plan).unlink()
    with pytest.raises(NotFoundError, match=r"is outdated and kept.*plan .* is gone"):
        outdated.build(outdated=OutdatedRule.KEEP)


def test_rebuild_meets_the_plan_of_a_run_with_another_reason(outdated):
    spec, interval = outdated.spec, outdated.interval()
    theirs = plan(spec, interval, outdated.env, rebuild="label was off by one")
    ours = plan(spec, interval, outdated.env, outdated=OutdatedRule.REBUILD)
    assert ours.ref == theirs.ref
    assert load_plan(outdated.folder, ours.ref).rebuild == "label was off by one"
    outdated.build(outdated=OutdatedRule.REBUILD)
    assert supersedes(outdated)["why"] == "label was off by one"


def test_rebuild_replaces_a_plan_that_differs_in_more_than_its_reason(outdated):
    first = plan(outdated.spec, outdated.interval(), outdated.env, rebuild="a gate")
    outdated.edit("output:", "quality:\n  - {check: count, min: 1}\noutput:")
    again = plan(outdated.spec, outdated.interval(), outdated.env, outdated=OutdatedRule.REBUILD)
    assert again.ref == first.ref
    assert load_plan(outdated.folder, again.ref).rebuild == CAUSES


def test_a_dry_run_says_what_the_rule_would_do(outdated):
    kept = dry_run(outdated.spec, outdated.interval(), outdated.env, outdated=OutdatedRule.KEEP)
    (line,) = describe(kept)
    assert line == (
        "dry run of clicks/2024-03-01: g0001 is outdated and kept, nothing is built: spec.seed:"
        " 7 → 8; a build would read and publish nothing"
    )
    again = dry_run(outdated.spec, outdated.interval(), outdated.env, outdated=OutdatedRule.REBUILD)
    assert (again.verdict, again.publishes.supersedes["why"]) == ("build", CAUSES)
    assert len(outdated.folder.plan_ids(DAY)) == 1


def test_a_kept_version_is_planned_as_it_was(outdated):
    kept = plan(outdated.spec, outdated.interval(), outdated.env, outdated=OutdatedRule.KEEP)
    assert kept.ref == PlanRef("clicks", DAY, outdated.version().manifest.plan)
    assert kept.is_published
