"""A plan that was never published ends with its interval: it is not published, its files go."""

import os
import signal
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.upkeep.retention.test_intervals import DAYS, prune_command, retired, run, three
from trainfeed.core import faults
from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.pipeline import Build
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.publish import publish
from trainfeed.upkeep.retention import Context, retire
from trainfeed.versions.layout import generation_of_plan
from trainfeed.versions.retire import retirement_of

__all__ = ["three"]
OLD = DAYS[0]
REASON = "by another code"


def begin(project, day=OLD, reason=REASON):
    """Plan a further generation, and land it by other pieces than those of the others."""
    project.edit("samples_per_shard: 50", "samples_per_shard: 40")
    planned = plan(project.spec, project.interval(day), project.env, rebuild=reason)
    begun = Build(project.spec, project.env, planned.ref)
    for stage in (ingest, preprocess):
        for unit in range(planned.tasks[stage.__name__]):
            stage(begun, unit)
    return begun


def age(project, begun, days=4):
    """Let the files of a plan be some days old."""
    then = datetime.now(UTC).timestamp() - days * 86_400
    os.utime(project.folder.plan(begun.ref.interval, begun.ref.plan_id), (then, then))


def kinds(removals):
    return {each.item.kind for each in removals.expired}


def test_a_rule_leaves_an_interval_while_a_build_of_it_may_pause(three):
    begun = begin(three)
    (kept,) = [each for each in run(three).kept if each.item.kind == "intervals"]
    assert "was not published, and a build of it may pause" in kept.why
    assert publish_all(three, begun) == "built"
    assert retired(three) == []


def publish_all(project, begun):
    planned = load_plan(project.folder, begun.ref)
    for unit in range(len(planned.convert)):
        convert(begun, unit)
    check(begun)
    return publish(begun).verdict


@pytest.mark.parametrize("by", ["rule", "person"])
def test_an_old_plan_ends_with_its_interval_and_is_never_published(three, by):
    begun = begin(three)
    age(three, begun)
    if by == "rule":
        run(three)
    else:
        retire(Context.of(three.spec, three.env, who="ann"), OLD, "keep_intervals: 2")
    assert retirement_of(three.folder, OLD).last_generation == 3
    error, told = {
        "rule": (ConflictError, r"by ann .*keep_intervals: 2; plan .* ended with it"),
        "person": (NotFoundError, "plan .* is missing; nothing was changed"),
    }[by]
    with pytest.raises(error, match=told):
        publish_all(three, begun)
    assert three.folder.generations(OLD) == []
    for _ in range(3):
        run(three)
    assert three.folder.plan_ids(OLD) == []
    # A rebuild with a reason gets a number of its own, and not that of the plan.
    assert three.build(OLD, rebuild="the audit")["generation"] == "g0004"
    assert list(three.version(OLD).problems()) == []


def test_its_landing_files_go_with_those_of_the_versions(three):
    three.edit("seed: 7", "seed: 7\nresources: {records_per_task: 7}")
    begun = begin(three)
    age(three, begun)
    landing = three.path / "landing"
    day = {path for path in landing.rglob("*") if path.is_file()}
    run(three)
    assert kinds(run(three)) == {"landing"}
    assert {path for path in landing.rglob("*") if path.is_file()} < day
    assert kinds(run(three)) == {"plans"}
    three.edit("seed: 7\nresources: {records_per_task: 7}", "seed: 7")
    left = {path for path in landing.rglob("*") if path.is_file()}
    assert three.build(OLD, rebuild="again")["verdict"] == "built"
    assert {path for path in landing.rglob("*") if path.is_file()} > left


def test_what_its_gates_compare_with_is_free(three):
    three.edit("keep_intervals: 2", "keep_intervals: 1")
    begun = begin(three, DAYS[1])
    assert "compares with it" in next(e.why for e in run(three).kept if e.item.name == OLD)
    age(three, begun)
    run(three)  # the plan of the second day ends with its interval
    run(three)
    assert retired(three) == DAYS[:2]


def test_a_plan_with_a_reason_after_the_retirement_is_a_plan_as_any_other(three):
    run(three)
    begun = begin(three)
    assert generation_of_plan(begun.ref.plan_id) == 3
    age(three, begun, days=40)
    for _ in range(3):
        run(three)
    assert begun.ref.plan_id in three.folder.plan_ids(OLD)
    assert publish_all(three, begun) == "built"
    assert retired(three) == []


def test_the_rule_for_plans_ends_it_if_nobody_goes_on(three):
    run(three)
    begun = begin(three)
    age(three, begun, days=40)
    three.edit("keep_intervals: 2", "keep_intervals: 2, plans: {keep_days: 30}")
    for _ in range(4):
        run(three)
    assert three.folder.plan_ids(OLD) == []
    assert retired(three) == [OLD]


def test_a_build_without_a_reason_that_began_before_does_not_end_the_retirement(
    project, monkeypatch
):
    """The builder has passed its look at the retirement when the interval is retired."""
    for day in (DAYS[0], DAYS[2]):
        project.build(day)
    real = faults.point

    def point(name):
        if name == "publish.before_rename":
            raise AssertionError("the rename was reached")
        real(name)

    begun = plan(project.spec, project.interval(DAYS[1]), project.env)
    started = Build(project.spec, project.env, begun.ref)
    for stage in (ingest, preprocess):
        for unit in range(begun.tasks[stage.__name__]):
            stage(started, unit)
    later = datetime.now(UTC) + timedelta(days=4)
    spec, folder = project.spec, project.folder
    aside = folder.plans(DAYS[1]).rename(folder.path / "aside")
    retire(Context.of(spec, project.env, now=later, who="ann"), DAYS[1], "no good day")
    aside.rename(folder.plans(DAYS[1]))
    monkeypatch.setattr(faults, "point", point)
    with pytest.raises(ConflictError, match=r"while plan .* was at work; nothing was published"):
        publish_all(project, started)
    assert folder.generations(DAYS[1]) == []


@pytest.mark.parametrize("point", ["prune.after_mark", "retirement.after_file"])
def test_a_killed_run_is_completed_and_the_number_stays_given_up(three, point):
    begun = begin(three)
    age(three, begun)
    killed = prune_command(three, point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert three.folder.is_removed(OLD, 3)
    with pytest.raises(ConflictError, match=r"given up|ended with it"):
        publish_all(three, begun)
    for _ in range(4):
        run(three)
    assert retired(three) == [OLD]
    assert three.folder.plan_ids(OLD) == []
    assert run(three).expired == ()
    assert three.build(OLD, rebuild="the audit")["generation"] == "g0004"
