"""Limits from the history of a data set, and the drift of its versions one after another."""

import numpy as np
import pytest

from tests.unit.versions.drift.counted import statistics_of
from trainfeed.errors import FormatError
from trainfeed.samples import Field, Schema, Statistics
from trainfeed.versions.drift import (
    LEAST_VERSIONS,
    DriftRule,
    Judged,
    Selection,
    Snapshot,
    change,
    drift_of,
    judge,
    judgement_to_json,
)
from trainfeed.versions.drift.comparison import MOST_PARTS, compare, judgement_from_json
from trainfeed.versions.drift.distances import Distance

VALUES = Field("v", "float32", (2,))


def history(*distances):
    return [{"x": {"psi": Judged(distance, None)}} for distance in distances]


def limit_of(distance, past, rule=None, chance=0.0):
    measured = {"x": {"psi": Distance(distance, chance)}}
    return judge(measured, past, rule or DriftRule())["x"]["psi"]


def snapshot(name, values, field=VALUES, gates=()):
    fields = statistics_of(values, field).fields
    return Snapshot(name, lambda: fields, gates)


def days(count, size=900, seed=3):
    random = np.random.default_rng(seed)
    return [random.normal(size=(size, 2)).astype("f4") for _ in range(count)]


def drifts(snapshots, rule=None, selection=None):
    return list(drift_of(snapshots, rule or DriftRule(), selection or Selection()))


def test_there_is_no_limit_before_there_are_14_versions():
    # The first version has no distance, so 14 versions have 13.
    assert limit_of(9.0, history(*[0.1] * 12)).limit is None
    assert limit_of(9.0, history(*[0.1] * 13)).limit == pytest.approx(0.15)
    assert LEAST_VERSIONS == 14


def test_a_limit_is_the_factor_times_the_quantile_of_the_history():
    past = history(*(n / 100 for n in range(1, 31)))
    assert limit_of(0.0, past).limit == pytest.approx(0.45)
    assert limit_of(0.0, past, DriftRule(factor=2)).limit == pytest.approx(0.6)
    # Of 200 distances the 198th: two may be larger.
    past = history(*[0.1] * 197, 0.2, 5.0, 5.0)
    assert limit_of(0.0, past, DriftRule(history=200)).limit == pytest.approx(0.3)


def test_floor_and_chance_are_least_limits():
    past = history(*[0.001] * 20)
    assert limit_of(0.0, past).limit == 0.05
    assert limit_of(0.0, past, DriftRule(floors={"psi": 0.2})).limit == 0.2
    assert limit_of(0.0, past, chance=0.7).limit == 0.7


def test_a_distance_beyond_its_limit_counts_later_with_the_limit():
    past = [*history(*[0.1] * 13), {"x": {"psi": Judged(40.0, 0.15)}}]
    assert limit_of(0.3, past) == Judged(0.3, pytest.approx(0.225))
    assert limit_of(0.3, past).is_beyond


def test_a_measure_that_the_history_lacks_is_not_judged():
    measured = {"y": {"psi": Distance(5, 0)}, "x": {"ks": Distance(5, 0)}}
    judgement = judge(measured, history(*[0.1] * 20), DriftRule())
    assert [judgement["y"]["psi"].limit, judgement["x"]["ks"].limit] == [None, None]


def test_a_shift_of_one_component_is_found_and_named():
    versions = [snapshot(f"d{n:02}", values) for n, values in enumerate(days(21))]
    shifted = days(1, seed=9)[0]
    shifted[:, 1] += 1
    *quiet, last = drifts([*versions, snapshot("shifted", shifted)])
    assert [each.name for each in quiet if each.beyond] == []
    assert last.beyond == ["v[1]"]
    said = change(last.compared()["v[1]"])
    assert "mean " in said
    assert "→" in said
    assert "share of about" in said


def test_versions_are_compared_with_those_before_them_alone():
    versions = [snapshot(f"d{n:02}", values) for n, values in enumerate(days(20))]
    first = drifts(versions[:16])
    again = drifts(versions)
    assert [judgement_to_json(each.judgement) for each in first] == [
        judgement_to_json(each.judgement) for each in again[:16]
    ]
    assert [each.versions for each in again] == list(range(20))
    assert first[0].judgement == {}
    assert all(j.limit is None for j in first[13].judgement["v[0]"].values())
    assert all(j.limit is not None for j in first[14].judgement["v[0]"].values())


def test_distances_of_manifests_are_used_without_reading_statistics():
    def refuse():
        raise AssertionError("statistics were read")

    entry = {"check": "drift", "reference": 7, "distances": {"v[0]": {"psi": [0.25, None]}}}
    recorded = [Snapshot(f"d{n:02}", refuse, [entry]) for n in range(20)]
    found = drifts(recorded)
    assert all(each.is_recorded for each in found)
    assert found[-1].judgement == {"v[0]": {"psi": Judged(0.25, None)}}
    values = days(8)
    recorded[-7:] = [snapshot(f"d{n}", value, gates=[entry]) for n, value in enumerate(values[:7])]
    last = drifts([*recorded, snapshot("now", values[7])])[-1]
    assert last.judgement["v[0]"]["psi"].limit == pytest.approx(0.375)
    assert last.judgement["v[1]"]["psi"].limit is None
    # Of another length of the reference, distances are computed.
    with pytest.raises(AssertionError, match="statistics were read"):
        drifts(recorded[:2], DriftRule(reference=14))


@pytest.mark.parametrize(
    "value",
    [None, 3, {"x": 3}, {"x": {"psi": 1}}, {"x": {"psi": ["a", None]}}, {"x": {"psi": [1]}}],
)
def test_other_json_in_place_of_distances_is_a_format_error(value):
    with pytest.raises(FormatError, match="expected distances of drift"):
        judgement_from_json(value)


def test_distances_survive_json():
    judgement = {"x": {"psi": Judged(0.25, None), "ks": Judged(0.5, 0.75)}}
    assert judgement_from_json(judgement_to_json(judgement)) == judgement


def test_versions_published_before_components_are_left_out_of_references():
    now, *earlier = (statistics_of(values, VALUES) for values in days(4))
    old = earlier[0].to_json()
    del old["v"]["components"]
    old = Statistics.from_json(Schema((VALUES,)), old)
    alone = compare(now.fields, [earlier[1].fields])
    mixed = compare(now.fields, [old.fields, earlier[1].fields])
    assert {part: each.distances for part, each in alone.items()} == {
        part: each.distances for part, each in mixed.items()
    }
    assert compare(now.fields, [old.fields]) == {}


def test_fields_of_another_type_or_shape_are_not_compared():
    now = statistics_of(days(1)[0], VALUES)
    others = [
        statistics_of(days(1)[0].astype("f8"), Field("v", "float64", (2,))),
        statistics_of(np.ones((9, 3), "f4"), Field("v", "float32", (3,))),
    ]
    assert compare(now.fields, [each.fields for each in others]) == {}
    optional = statistics_of(days(1)[0], Field("v", "float32", (2,), optional=True))
    assert set(compare(now.fields, [optional.fields])) == {"v[0]", "v[1]"}


def test_a_selection_names_fields_and_components():
    now = statistics_of(days(1)[0], VALUES).fields
    for selection, expected in [
        (Selection(["v"]), {"v[0]", "v[1]"}),
        (Selection(["v[1]"]), {"v[1]"}),
        (Selection(None, ["v[1]"]), {"v[0]"}),
        (Selection(["v"], ["v"]), set()),
        (Selection(["other"]), set()),
    ]:
        assert set(compare(now, [now], selection)) == expected
    assert Selection(["v[1]"]).schema(Schema((VALUES, Field("w", "int8")))).names == ("v",)
    assert Selection(None, ["v"]).schema(Schema((VALUES,))) is None


def test_the_number_of_compared_parts_is_bounded():
    schema = Schema(tuple(Field(f"f{n}", "int8") for n in range(MOST_PARTS + 5)))
    statistics = Statistics(schema)
    statistics.update(dict.fromkeys(schema.names, 1))
    assert len(compare(statistics.fields, [statistics.fields])) == MOST_PARTS
    assert len(Selection().schema(schema).names) == MOST_PARTS


@pytest.mark.parametrize(
    ("field", "before", "after", "said"),
    [
        (
            Field("x", "int64"),
            np.array([1, 2] * 50),
            np.array([1] * 100),
            "share of 1 50.0% → 100.0%",
        ),
        (
            Field("x", "str"),
            ["ab", "c\x1b"] * 9,
            ["c\x1b"] * 9,
            r"share of 'ab' 50.0% → 0.0%",
        ),
        (
            Field("x", "float64", optional=True),
            [1.0] * 9,
            [1.0, None, None],
            "share of about 1 100.0% → 33.3%, mean 1 → 1",
        ),
    ],
)
def test_a_change_is_told_with_the_share_before_and_after(field, before, after, said):
    found = compare(statistics_of(after, field).fields, [statistics_of(before, field).fields])
    assert change(found["x"]).startswith(said)
