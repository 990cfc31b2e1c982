"""A waiver: what may be waived, by whom, and what is refused."""

import shlex
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.pipeline.waivers.conftest import DAY, wished
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    ConflictError,
    FormatError,
    GateError,
    NotFoundError,
    WindowError,
)
from trainfeed.pipeline.local import build
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.waivers import WaiverWish, next_command, waivable, waive, waiver_states
from trainfeed.versions.waive import read_waivers

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LATER = NOW + timedelta(days=2)


def test_the_refusal_names_the_command_that_waives(refused_once, refused):
    command = f"trainfeed waive clicks/{DAY} --plan {refused.plan_id} --why WHY --until TIME"
    assert command in refused_once[1]
    assert refused_once[2].question is None


def test_the_failed_gates_are_shown_with_their_values(refused):
    found = refused.found()
    assert [gate["check"] for gate in found.refused.gates] == ["quarantine_ratio", "range"]
    assert found.refused.lines[0].startswith("quarantine_ratio is 0.0983607, allowed: max 0.05")
    assert found.last == 0


def test_a_waived_build_is_published_without_computing_anything_again(refused, monkeypatch):
    staged = refused.folder.staged(refused.plan_id)
    shards = {path.name: path.stat().st_ino for path in staged.glob("*-of-*")}
    waiver = refused.waive()
    for stage in ("preprocess.run_function", "convert.write_shard"):
        monkeypatch.setattr(f"trainfeed.pipeline.{stage}", _must_not_run)
    assert refused.build()["verdict"] == "built"
    version = refused.version()
    version.verify()
    (entry,) = version.manifest.waivers
    names = ("who", "account", "why", "until", "at")
    assert entry == {
        **{name: getattr(waiver, name) for name in names},
        "gates": [dict(gate) for gate in waiver.gates],
    }
    assert [gate["passed"] for gate in version.manifest.gates] == [False, False]
    assert shards
    assert shards == {name: (version.path / name).stat().st_ino for name in shards}


def _must_not_run(*_):
    raise AssertionError("computed again")


def test_the_version_differs_from_one_with_looser_gates_in_gates_and_waivers_alone(refused):
    refused.waive()
    refused.build()
    loose = refused.elsewhere("loose")
    loose.edit("max: 0.05", "max: 0.5")
    loose.edit("max: 20", "max: 2000")
    loose.build()
    with_waiver, without = (each.version().manifest.to_json() for each in (refused, loose))
    differing = {key for key in without if without[key] != with_waiver[key]}
    assert differing == {"gates", "waivers"}
    assert without["waivers"] == []


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"why": "no"}, ConfigError, "expected why of 3 to 500"),
        ({"why": " a "}, ConfigError, "expected why of 3 to 500"),
        ({"gates": [{"check": "count", "value": 1}]}, ConfigError, "got count with other limits"),
        ({"why": " " * 9}, ConfigError, "expected why of 3 to 500"),
        ({"why": "two\nlines"}, ConfigError, "printable characters on one line"),
        ({"who": ""}, ConfigError, "expected who of 1 to 500"),
        ({"until": NOW}, ConfigError, "after now, 2026-03-01T00:00:00Z, and within a year"),
        ({"until": NOW + timedelta(days=367)}, ConfigError, "within a year"),
        ({"until": datetime(2026, 4, 1)}, WindowError, "expected a time with a zone"),  # noqa: DTZ001
        ({"checks": ["count"]}, ConfigError, r"a gate that failed \(quarantine_ratio, range\)"),
        ({"checks": ["quarantine_ratio"], "fields": ["value"]}, ConfigError, "a gate that failed"),
    ],
)
def test_an_incomplete_decision_writes_nothing(refused, changes, error, message):
    with pytest.raises(error, match=message):
        refused.waive(now=NOW, **changes)
    assert read_waivers(refused.folder, DAY, refused.plan_id) == {}


def test_the_times_of_a_waiver_have_whole_seconds(refused):
    now = NOW.replace(microsecond=7)
    waiver = refused.waive(now=now, until=now + timedelta(hours=1))
    assert (waiver.at, waiver.until) == ("2026-03-01T00:00:00Z", "2026-03-01T01:00:00Z")


def test_nothing_is_waived_where_no_gate_failed(project):
    project.build()
    with pytest.raises(NotFoundError, match="no gate of an unpublished plan of clicks/2024-03-01"):
        waivable(project.folder, DAY)
    with pytest.raises(ConflictError, match="g0001 is published by this plan; a waiver has no"):
        waivable(project.folder, DAY, project.folder.plan_ids(DAY)[0])


def test_a_plan_that_was_made_again_must_be_measured_again(refused):
    refused.edit("max: 0.05", "max: 0.04")
    plan(refused.spec, refused.interval(), refused.env)
    with pytest.raises(ConflictError, match="was made again since its gates were measured"):
        refused.found()


def test_the_plan_of_the_last_attempt_is_meant(refused):
    first = refused.plan_id
    refused.edit("return Filtered", "return  Filtered", "preprocess.py")
    with pytest.raises(GateError, match="is not published"):
        refused.build()
    (second,) = set(refused.folder.plan_ids(DAY)) - {first}
    assert refused.found().plan.plan_id == second
    refused.folder.unpublished(DAY).unlink()
    with pytest.raises(ConfigError, match="several plans with failed gates"):
        refused.found()
    assert waivable(refused.folder, DAY, first).plan.plan_id == first


def test_of_two_people_at_once_one_is_told_about_the_other(refused):
    found, start = refused.found(), threading.Barrier(2)

    def decide(who):
        start.wait(60)
        try:
            return refused.waive(found, who=who, why=f"{who} says so")
        except ConflictError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(decide, ["ana", "ben"]))
    (message,) = [end for end in ends if isinstance(end, str)]
    (winner,) = [end for end in ends if not isinstance(end, str)]
    assert f"by {winner.who} (builder) until {winner.until}: {winner.who} says so" in message
    assert list(read_waivers(refused.folder, DAY, refused.plan_id).values()) == [winner]


def test_the_slower_of_two_is_told_also_when_both_had_looked(refused, monkeypatch):
    found = refused.found()
    first = refused.waive(found)
    monkeypatch.setattr("trainfeed.pipeline.waivers.read_waivers", lambda *_: {})
    with pytest.raises(ConflictError, match="were waived meanwhile by ana"):
        refused.waive(found, who="ben")
    assert list(read_waivers(refused.folder, DAY, refused.plan_id).values()) == [first]


def test_a_second_waiver_may_be_about_another_gate_or_a_later_time_only(refused):
    refused.waive(checks=["range"])
    with pytest.raises(ConflictError, match="are waived already by ana"):
        refused.waive(checks=["range"], why="another reason")
    refused.waive(who="ben")
    assert sorted(read_waivers(refused.folder, DAY, refused.plan_id)) == [1, 2]
    refused.build()
    entries = refused.version().manifest.waivers
    assert [(each["who"], [gate["check"] for gate in each["gates"]]) for each in entries] == [
        ("ana", ["range"]),
        ("ben", ["quarantine_ratio"]),
    ]


def test_a_waiver_while_another_publishes_says_that_it_is_not_used(refused, monkeypatch):
    found = refused.found()
    refused.waive(found, checks=["range"])
    refused.waive(refused.found(), who="ben")

    looks = []

    def published_before_the_second(*asked):
        looks.append(asked)
        if len(looks) == 1:
            return read_waivers(*asked)
        monkeypatch.undo()
        refused.build()
        return {}

    monkeypatch.setattr("trainfeed.pipeline.waivers.read_waivers", published_before_the_second)
    with pytest.raises(ConflictError, match="is published by this plan, with the waiver of ana"):
        refused.waive(refused.found(), who="eve")
    states = {each.waiver.who: each.state for each in waiver_states(refused.folder, NOW)}
    assert states == {"ana": "used", "ben": "used", "eve": "unused"}


def test_states_tell_holding_waivers_from_those_that_are_over(refused):
    refused.waive(now=NOW)
    (holding,) = waiver_states(refused.folder, NOW, DAY)
    (over,) = waiver_states(refused.folder, LATER)
    assert (holding.state, over.state, over.generation) == ("holds", "over", None)
    assert list(waiver_states(refused.folder, NOW, "2024-03-02")) == []


@pytest.mark.parametrize("name", ["waiver-0001", "refused"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-9],
        lambda data: data.replace(b"quarantine_ratio", b"quarantine_rati0"),
        lambda _: b"[]",
        lambda _: b"x" * (2 << 20),
    ],
)
def test_a_damaged_file_is_an_error_and_publishes_nothing(refused, name, damage):
    refused.waive()
    path = refused.folder.plans(DAY) / f"{refused.plan_id}.{name}.json"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FormatError, match="nothing was"):
        refused.found()
    if name == "waiver-0001":
        with pytest.raises(FormatError, match=name):
            refused.build()
        assert refused.folder.intervals() in ([], [DAY])
        assert refused.folder.generations(DAY) == []


def test_a_link_is_no_waiver(refused, tmp_path):
    refused.waive()
    path = refused.folder.plans(DAY) / f"{refused.plan_id}.waiver-0001.json"
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(FormatError, match="expected a plain file"):
        refused.build()


def test_a_waiver_of_another_plan_is_none(refused):
    refused.waive()
    plans = refused.folder.plans(DAY)
    other = "0123456789abcdef-g0001"
    data = (plans / f"{refused.plan_id}.waiver-0001.json").read_bytes()
    (plans / f"{other}.waiver-0001.json").write_bytes(data)
    with pytest.raises(FormatError, match="a waiver of the plan: plan: expected"):
        read_waivers(refused.folder, DAY, other)


def test_a_public_root_cannot_be_written(refused):
    env = replace(refused.env, is_root_public=True)
    with pytest.raises(AccessDeniedError, match="which is for reading"):
        waive(env, refused.found(), WaiverWish(**wished(NOW)), NOW)


def test_a_build_of_the_library_takes_a_waived_plan_too(refused):
    refused.waive()
    assert build(refused.spec, refused.interval(), refused.env).verdict == "built"


def test_the_next_command_comes_to_the_same_plan(refused):
    planned = refused.found().plan
    gap = {"source": "kafka:clicks/0", "start": 0, "end": 1, "why": "a lost disk"}
    changes = {"rebuild": "label's fix", "gaps": [gap]}
    assert next_command(planned) == f"trainfeed build clicks --interval {DAY}"
    command = next_command(planned.model_copy(update=changes))
    assert command.startswith(f"trainfeed build clicks --interval {DAY} --rebuild ")
    said = ["--rebuild", "label's fix", "--allow-gap", "a lost disk"]
    assert shlex.split(command)[-4:] == said
    replay = next_command(planned.model_copy(update={"rebuild": "why", "made_by": "replay"}))
    assert replay == f"trainfeed quarantine replay clicks/{DAY}"
