"""What was withdrawn is not built, published or used by a run again, until a person says so."""

from dataclasses import replace

import pytest

from tests.unit.upkeep.withdrawal.conftest import ADA, DAY
from trainfeed.errors import Outcome, WithdrawnError
from trainfeed.pipeline import Build, OutdatedRule
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import load_plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.preview import dry_run
from trainfeed.pipeline.publish import publish
from trainfeed.upkeep.withdrawal import restore, withdraw

TOLD = r"clicks/2024-03-01/g0001 was withdrawn by ada \(builder\) at .*: labels of yesterday"


def hide(project, generation=None):
    withdraw(project.env, "clicks", DAY, generation, ADA)


def last(project):
    return project.folder.last_generation(DAY)


def test_the_next_night_is_refused_until_a_reason_or_a_restoration(project):
    hide(project)
    with pytest.raises(WithdrawnError, match=TOLD) as refused:
        project.build()
    assert refused.value.outcome is Outcome.FAIL
    for command in (
        "trainfeed restore clicks/2024-03-01/g0001 --why WHY",
        "trainfeed build clicks --interval 2024-03-01 --rebuild WHY",
    ):
        assert command in str(refused.value)
    with pytest.raises(WithdrawnError, match=TOLD):
        dry_run(project.spec, project.interval(), project.env)
    assert last(project) == 1
    built = project.build(rebuild="they were right")
    assert (built["generation"], built["verdict"]) == ("g0002", "built")
    assert len(load_plan(project.folder, plan_ref(project)).acknowledges) == 1
    assert project.build()["verdict"] == "identical"
    assert project.build(rebuild="they were right")["verdict"] == "identical"


def plan_ref(project, **request):
    return plan(project.spec, project.interval(), project.env, **request).ref


def test_after_a_restoration_the_night_finds_the_version_as_it_was(project):
    hide(project)
    restore(project.env, "clicks", DAY, None, replace(ADA, why="they were right"))
    assert project.build()["verdict"] == "identical"
    assert last(project) == 1


def test_a_run_that_is_repeated_with_its_old_reason_gives_no_new_one(twice):
    hide(twice)
    with pytest.raises(WithdrawnError, match="'another seed' is that of a version withdrawn since"):
        twice.build(rebuild="another seed")
    assert twice.build(rebuild="checked with care")["generation"] == "g0003"


def test_the_reason_of_a_first_build_is_in_its_plan_alone_and_is_spent_too(project):
    hide(project)
    project.prebuilt(rebuild="they were right")
    hide(project)
    with pytest.raises(WithdrawnError, match="'they were right' is that of"):
        project.build(rebuild="they were right")


def test_an_older_generation_left_is_no_way_around(twice):
    hide(twice)
    with pytest.raises(WithdrawnError, match="withdrawn by ada"):
        twice.build()
    with pytest.raises(WithdrawnError, match="withdrawn by ada"):
        twice.build(outdated=OutdatedRule.REBUILD)
    assert twice.build(outdated=OutdatedRule.KEEP)["generation"] == "g0001"
    twice.edit("seed: 8", "seed: 9")
    assert twice.build(outdated=OutdatedRule.REBUILD)["generation"] == "g0003"


def test_other_code_that_makes_the_same_content_is_refused_at_publication(project):
    hide(project)
    project.edit("def clicks", "# a comment\ndef clicks", "preprocess.py")
    with pytest.raises(WithdrawnError, match="g0002 has the content of a withdrawn version"):
        project.build()
    assert last(project) == 1
    assert project.build(rebuild="they were right")["generation"] == "g0002"


def test_a_withdrawal_between_plan_and_publication_stops_the_publication(project):
    ref = run_until_checked(project, rebuild="once more")
    hide(project)
    with pytest.raises(WithdrawnError, match=TOLD):
        publish(Build(project.spec, project.env, ref))
    assert last(project) == 1
    assert project.build(rebuild="knowing all that")["generation"] == "g0002"


def run_until_checked(project, **request):
    ref = plan_ref(project, **request)
    where = Build(project.spec, project.env, ref)
    for stage in (ingest, preprocess, convert):
        stage(where, 0)
    check(where)
    return ref


def test_no_later_task_of_the_run_goes_on_with_a_withdrawn_version(project):
    ref = plan_ref(project)
    hide(project)
    for stage in (check, publish):
        with pytest.raises(WithdrawnError, match=TOLD):
            stage(Build(project.spec, project.env, ref))


def test_a_plan_does_not_compare_with_a_version_withdrawn_since(project):
    where = Build(project.spec, project.env, plan_of(project, "2024-03-02"))
    (reference,) = load_plan(project.folder, where.ref).references
    assert reference.is_usable(project.folder, statistics=False)
    hide(project)
    assert not reference.is_usable(project.folder, statistics=False)
    assert load_plan(project.folder, plan_of(project, "2024-03-02")).references == []


def plan_of(project, name):
    return plan(project.spec, project.interval(name), project.env).ref


def test_the_report_of_a_build_lists_the_withdrawals_that_its_reason_acknowledges(project):
    hide(project)
    told = dry_run(project.spec, project.interval(), project.env, rebuild="they were right")
    assert "acknowledges 1 withdrawals: clicks/2024-03-01/g0001 was withdrawn by ada" in told.note
    note = project.build(rebuild="they were right")["note"]
    assert "'they were right', acknowledges 1 withdrawals: clicks/2024-03-01/g0001 was" in note
    assert "note" not in project.build()
