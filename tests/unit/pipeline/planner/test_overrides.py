"""Parameters chosen for one interval: builds, backfills and outdated follow them until they end."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from trainfeed.core.accounts import Decision
from trainfeed.errors import ConfigError, ConflictError, FormatError
from trainfeed.look.outdated import find_outdated
from trainfeed.pipeline.parameters import (
    choose_parameters,
    interval_spec,
    overridden,
    parse_parameters,
)
from trainfeed.pipeline.preview import dry_run
from trainfeed.versions.history import actions
from trainfeed.versions.overrides import override_of, overrides_of, write_override

DAY = "2024-03-01"
NEXT = "2024-03-02"
CODE = """
def clicks(record, lookups, parameters):
    return {"value": parameters["scale"], "label": parameters["count"]}
"""
WHY = Decision.now("a test", who="Ann", account="ann")


@pytest.fixture
def project(project):
    given = '{function: "preprocess:clicks", input: record}'
    chosen = '{function: "preprocess:clicks", parameters: {scale: 0.5, count: 3, names: [a]}}'
    project.edit(given, chosen)
    (project.env.datasets / "clicks" / "preprocess.py").write_text(CODE)
    return project


def choose(project, interval=DAY, decision=WHY, **values):
    return choose_parameters(project.spec, project.folder, interval, values, decision)


def labels(project, interval=DAY):
    text = (project.version(interval).path / "statistics.json").read_text()
    return json.loads(text)["train"]["label"]["max"]


@pytest.mark.usefixtures("no_worker")
def test_builds_of_that_interval_alone_use_the_chosen_values(project):
    choose(project, count=7)
    project.build(DAY)
    project.build(NEXT)
    assert (labels(project, DAY), labels(project, NEXT)) == (7, 3)
    assert project.build(DAY)["verdict"] == "identical"
    assert {each.state for each in find_outdated(project.spec, project.env).intervals} == {
        "current"
    }


@pytest.mark.usefixtures("no_worker")
def test_a_choice_makes_the_published_interval_outdated_and_its_end_the_old_one_again(project):
    first = project.build(DAY)
    project.build(NEXT)
    choose(project, count=7)
    states = {e.interval: e.state for e in find_outdated(project.spec, project.env).intervals}
    assert states == {DAY: "outdated", NEXT: "current"}
    with pytest.raises(ConflictError, match="count"):
        project.build(DAY)
    second = project.build(DAY, rebuild="other count")
    assert second["content_digest"] != first["content_digest"]
    choose(project)
    third = project.build(DAY, rebuild="as it was")
    assert third["content_digest"] == first["content_digest"]


@pytest.mark.usefixtures("no_worker")
def test_a_choice_between_plan_and_stage_stops_the_stage(project):
    from trainfeed.errors import CodeChangedError
    from trainfeed.pipeline import Build
    from trainfeed.pipeline.ingest import ingest
    from trainfeed.pipeline.plan import plan
    from trainfeed.pipeline.preprocess import preprocess

    report = plan(project.spec, project.interval(), project.env)
    build = Build(project.spec, project.env, report.ref)
    for task in range(report.tasks["ingest"]):
        ingest(build, task)
    choose(project, count=7)
    with pytest.raises(CodeChangedError, match="preprocess"):
        preprocess(build, 0)


def test_a_dry_run_shows_what_the_choice_would_build(project):
    project.build(DAY)
    choose(project, count=7)
    with pytest.raises(ConflictError, match="count"):
        dry_run(project.spec, project.interval(), project.env)


def test_values_add_up_and_those_of_the_file_are_no_choice(project):
    choose(project, count=7)
    assert choose(project, scale=2).override.parameters == {"count": 7, "scale": 2.0}
    assert choose(project, count=3).override.parameters == {"scale": 2.0}
    assert choose(project, scale=0.5).override is None
    assert [each.parameters for each in overrides_of(project.folder, DAY)] == [
        {"count": 7},
        {"count": 7, "scale": 2.0},
        {"scale": 2.0},
        {},
    ]
    assert overridden(project.folder) == []


def test_the_same_choice_again_writes_nothing(project):
    assert choose(project, names=["b", "c"]).is_new
    assert not choose(project, names=("b", "c")).is_new
    now = interval_spec(project.spec, project.folder, project.interval())
    assert now.preprocess.parameters == {
        "scale": 0.5,
        "count": 3,
        "names": ("b", "c"),
    }
    assert len(overrides_of(project.folder, DAY)) == 1
    told = [each for each in actions(project.folder) if each.action == "parameters"]
    assert [(each.target, each.why) for each in told] == [(f"clicks/{DAY}", "a test")]


def test_a_request_is_carried_out_once_whatever_came_since(project):
    asked = replace(WHY, request="run-1")
    choose(project, decision=asked, count=7)
    choose(project, count=8)
    choose(project, decision=asked, count=7)
    assert override_of(project.folder, DAY).parameters == {"count": 8}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cuont": 1}, "did you mean 'count'"),
        ({"count": 1.5}, "expected int, like 3"),
        ({"count": True}, "expected int"),
        ({"count": "7"}, "expected int"),
        ({"scale": "x"}, "expected float"),
        ({"names": "a"}, "expected list"),
        ({"count": None}, "expected true, false, a number"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_nothing_is_written(project, values, message):
    with pytest.raises(ConfigError, match=message):
        choose(project, **values)
    assert overrides_of(project.folder, DAY) == []


def test_a_choice_that_dataset_yaml_no_longer_knows_stops_the_build_with_its_end(project):
    choose(project, count=7)
    project.edit("count: 3, ", "")
    with pytest.raises(
        ConfigError, match=rf"chosen by Ann.*trainfeed parameters clicks/{DAY} --end"
    ):
        project.build(DAY)
    choose(project)
    assert override_of(project.folder, DAY) is None


def test_a_damaged_decision_stops_the_build(project):
    choose(project, count=7)
    path = project.folder.overrides(DAY) / "0001.json"
    path.write_bytes(path.read_bytes().replace(b"7", b"9"))
    with pytest.raises(FormatError, match=r"0001\.json"):
        project.build(DAY)
    path.unlink()
    with pytest.raises(FormatError, match="missing"):
        project.build(DAY)


def test_of_two_choices_at_once_one_holds_and_the_other_is_told(project):
    def write(count):
        try:
            return write_override(project.folder, DAY, {"count": count}, WHY)[1]
        except ConflictError:
            return None

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(write, range(8)))
    decisions = overrides_of(project.folder, DAY)
    assert found.count(True) == len(decisions) >= 1
    assert [each.number for each in decisions] == list(range(1, len(decisions) + 1))


@pytest.mark.parametrize(
    ("texts", "values"),
    [(["a=1"], {"a": 1}), (["a=1.5", "b=x y"], {"a": 1.5, "b": "x y"}),
     (["a=[1, b]"], {"a": (1, "b")}), (["a='1'"], {"a": "1"}),
     (["a=true"], {"a": True}), (["a=b=c"], {"a": "b=c"})],
)  # fmt: skip
def test_values_are_written_as_in_yaml(texts, values):
    found = parse_parameters(texts)
    assert found == values
    assert [type(each) for each in found.values()] == [type(each) for each in values.values()] or (
        "a=1.5" in texts
    )


@pytest.mark.parametrize(
    "texts", [["a"], ["=1"], ["A=1"], ["a=1", "a=2"], ["a=[1"], ["a: b=1"], ["a=*x"]]
)
def test_texts_that_are_no_values_are_refused(texts):
    with pytest.raises(ConfigError, match="NAME=VALUE"):
        parse_parameters(texts)
