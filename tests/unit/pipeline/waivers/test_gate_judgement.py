"""The judgement of ``check``: one decision per plan, whatever the clock says later."""

import dataclasses
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.roots import write_sealed
from tests.unit.pipeline.waivers.conftest import DAY, Refused
from trainfeed.core import canonical_json
from trainfeed.errors import ConflictError, FormatError, GateError, NotFoundError
from trainfeed.pipeline.check import check, judge
from trainfeed.pipeline.publish import publish
from trainfeed.pipeline.waivers import waiver_states
from trainfeed.versions.waive import (
    Applied,
    Waiver,
    lift_refused,
    read_refused,
    read_waivers,
    write_waiver,
)

PAST = datetime(2026, 3, 1, tzinfo=UTC)
AFTER = PAST + timedelta(days=2)


def gates(refused):
    return [dict(gate) for gate in refused.found().refused.gates]


def test_a_waiver_whose_time_is_over_is_named_and_publishes_nothing(refused):
    refused.waive(now=PAST)
    with pytest.raises(GateError) as caught:
        check(refused.stages)
    assert "the waiver of ana (builder) until 2026-03-02T00:00:00Z: a storm, is over" in str(
        caught.value
    )
    assert refused.folder.generations(DAY) == []


def test_after_an_expired_waiver_a_new_one_holds(refused):
    refused.waive(now=PAST)
    refused.waive(who="ben")
    refused.build()
    assert [each["who"] for each in refused.version().manifest.waivers] == ["ben"]


def test_a_build_that_passed_in_time_may_be_published_later(refused):
    refused.waive(now=PAST)
    judge(refused.folder, refused.ref, gates(refused), PAST)
    refused.build()
    assert [each["who"] for each in refused.version().manifest.waivers] == ["ana"]


def test_only_gates_that_were_named_pass(refused):
    refused.waive(checks=["range"], fields=["value"])
    with pytest.raises(GateError) as caught:
        check(refused.stages)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"clicks/{DAY} is not published: quarantine_ratio is ")
    assert "range" not in first


def test_a_worse_value_than_the_waived_one_does_not_pass(refused):
    refused.waive()
    worse = [{**gate, "value": [0, 500]} for gate in gates(refused)]
    found = judge(refused.folder, refused.ref, worse, datetime.now(UTC))
    assert found.waivers == ()
    assert list(found.open) == worse
    assert "is about other values or limits: quarantine_ratio 0.0983607" in found.notes[0]


def test_a_waiver_holds_whatever_the_words_about_its_gates(refused):
    refused.waive()
    reworded = [{**gate, "because": "12 of 122", "allowed": "5 %"} for gate in gates(refused)]
    now = datetime.now(UTC)
    for some in (reworded, gates(refused), reworded):
        found = judge(refused.folder, refused.ref, some, now)
        assert [each.who for each in found.waivers] == ["ana"]
    assert len(list(refused.folder.plans(DAY).glob("*.waived-*.json"))) == 1


def test_a_decision_that_an_earlier_release_named_by_the_words_of_the_gates_holds(refused):
    worded = [{**gate, "because": "12 of 122"} for gate in gates(refused)]
    waiver = refused.waive(now=PAST)
    place = refused.folder.plans(DAY) / "".join(
        (f"{refused.plan_id}.waived-", canonical_json.sha256_of(worded)[:16], ".json")
    )
    used = Applied.of(waiver, worded).to_json()
    write_sealed(place, {"plan": refused.plan_id, "waivers": [used]})
    found = judge(refused.folder, refused.ref, worded, datetime.now(UTC))
    assert [each.who for each in found.waivers] == ["ana"]


def test_a_waiver_of_changes_of_a_schema_holds_for_no_others_of_the_same_number(refused):
    gate = {"check": "schema_evolution", "severity": "block", "value": 1, "passed": False}
    one, other = (
        {**gate, "changes": [{"field": name, "change": "removed"}], "because": f"{name} removed"}
        for name in "ab"
    )
    earlier = {**gate, "because": "a removed"}
    waiver = dataclasses.replace(refused.waive(), gates=(one,))
    assert waiver.covers({**one, "because": "reworded"})
    assert not waiver.covers(other)
    by_earlier_release = dataclasses.replace(waiver, gates=(earlier,))
    assert by_earlier_release.covers(one)
    assert not by_earlier_release.covers(other)


def test_a_waiver_does_not_hold_for_a_stricter_limit(refused):
    refused.waive()
    refused.edit("max: 0.05", "max: 0.01")
    with pytest.raises(GateError, match="is about other values or limits"):
        refused.build()


def test_a_waiver_does_not_hold_for_other_code(refused):
    refused.waive()
    refused.edit("return Filtered", "return  Filtered", "preprocess.py")
    with pytest.raises(GateError, match="is not published"):
        refused.build()


def test_a_damaged_decision_is_an_error_and_publishes_nothing(refused):
    refused.waive()
    check(refused.stages)
    (path,) = refused.folder.plans(DAY).glob("*.waived-*.json")
    path.write_bytes(path.read_bytes().replace(b"ana", b"eve"))
    with pytest.raises(FormatError, match="the waivers in use of the plan"):
        check(refused.stages)


def test_a_waiver_that_is_moved_away_lets_no_later_attempt_pass(refused):
    refused.waive()
    check(refused.stages)
    (waiver,) = refused.folder.plans(DAY).glob("*.waiver-0001.json")
    waiver.unlink()
    with pytest.raises(FormatError, match=r"not there any more: .* waived by ana \(builder\)"):
        refused.build()
    assert refused.folder.generations(DAY) == []
    (decision,) = refused.folder.plans(DAY).glob("*.waived-*.json")
    decision.unlink()
    with pytest.raises(GateError, match="is not published: quarantine_ratio"):
        refused.build()


def test_a_decision_about_fewer_gates_is_an_error(refused):
    refused.waive()
    both = gates(refused)
    judge(refused.folder, refused.ref, both[:1], datetime.now(UTC))
    (one,) = refused.folder.plans(DAY).glob("*.waived-*.json")
    judge(refused.folder, refused.ref, both, datetime.now(UTC))
    (other,) = set(refused.folder.plans(DAY).glob("*.waived-*.json")) - {one}
    one.replace(other)
    with pytest.raises(FormatError, match="do not name all of its failed gates"):
        check(refused.stages)


@pytest.mark.parametrize("kind", ["shard", "part", "spill", "quarantine"])
def test_a_damaged_work_file_is_made_again_after_one_error(refused, kind):
    spill = refused.path / "work" / "spill" / refused.plan_id
    path = {
        "shard": next(refused.folder.staged(refused.plan_id).glob("*-of-*")),
        "part": next(spill.glob("*.part.arrow")),
        "spill": spill / "00000.arrow",
        "quarantine": spill / "00000.quarantine.arrow",
    }[kind]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    refused.waive()
    try:
        refused.build()
    except FormatError:
        assert read_refused(refused.folder, DAY, refused.plan_id) is None
        refused.build()
    refused.version().verify()
    assert refused.version().manifest.waivers


def test_missing_work_files_are_made_again(refused):
    refused.waive()
    shutil.rmtree(refused.path / "work")
    shutil.rmtree(refused.folder.staged(refused.plan_id))
    refused.build()
    assert [each["who"] for each in refused.version().manifest.waivers] == ["ana"]


def test_a_build_without_the_record_of_its_gates_computes_all(refused):
    refused.waive()
    lift_refused(refused.folder, DAY, refused.plan_id)
    refused.build()
    refused.version().verify()


@pytest.fixture(scope="module")
def with_gates(refused_once, tmp_path_factory):
    refused = Refused.of(refused_once[0], tmp_path_factory.mktemp("interleaved"))
    return refused, gates(refused)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("waive"), st.integers(1, 9), st.sets(st.integers(0, 1), min_size=1)),
        st.tuples(st.just("judge"), st.integers(0, 9), st.just(set())),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_all_attempts_that_pass_pass_by_the_same_waivers(with_gates, steps):
    refused, failed = with_gates
    for path in refused.folder.plans(DAY).glob("*.waive*.json"):
        path.unlink()
    passed, written = [], []
    for action, hour, chosen in steps:
        at = PAST + timedelta(hours=hour)
        if action == "waive":
            mine = tuple(failed[number] for number in sorted(chosen))
            until = f"2026-03-01T{hour:02d}:30:00Z"
            decided = {"who": f"p{len(written)}", "account": "a", "why": "why", "at": until}
            waiver = Waiver(refused.plan_id, until, mine, **decided)
            written.append((until, chosen))
            write_waiver(refused.folder, DAY, waiver, len(written))
            continue
        found = judge(refused.folder, refused.ref, failed, at)
        holding = [c for until, c in written if until > f"{at:%Y-%m-%dT%H:%M}"]
        may_pass = set().union(*holding) == {0, 1}
        assert bool(found.waivers) == (may_pass or bool(passed))
        if found.waivers:
            passed.append(found.waivers)
    assert all(each == passed[0] for each in passed)


def test_builds_and_waivers_at_once_end_with_one_version(refused):
    """Three builds, two people and a look at the waivers, all at the same time."""
    start = threading.Barrier(6)
    now = datetime.now(UTC)

    def run(act):
        start.wait(60)
        with suppress(GateError, ConflictError, NotFoundError):
            act()

    def look():
        list(waiver_states(refused.folder, now))

    people = [partial(refused.waive, who=who) for who in ("ana", "ben")]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, [*[refused.build] * 3, *people, look]))
    refused.build()
    refused.version().verify()
    (entry,) = refused.version().manifest.waivers
    (waiver,) = read_waivers(refused.folder, DAY, refused.plan_id).values()
    assert (entry["who"], len(entry["gates"])) == (waiver.who, 2)
    assert refused.folder.last_generation(DAY) == 1


def test_attempts_at_once_write_the_same_manifest(refused, tmp_path):
    refused.waive(now=PAST)
    judge(refused.folder, refused.ref, gates(refused), PAST)
    refused.waive(who="ben")
    other = Refused.of(refused, tmp_path / "other")
    check(refused.stages)
    check(refused.stages)
    publish(refused.stages)
    publish(refused.stages)
    other.build()
    assert refused.manifest() == other.manifest()
