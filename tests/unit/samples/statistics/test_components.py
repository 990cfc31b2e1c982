"""Statistics of components: those of each component as a scalar field, in any parts."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trainfeed.errors import FormatError
from trainfeed.samples import Field, FieldStatistics, Schema, Statistics, components_of_schema

RANDOM = np.random.default_rng(11)
NUMBERS = ("int8", "uint8", "bool", "int16", "int32", "uint64", "float16", "float32", "float64")


def schema_of(dtype, shape, *, optional=False):
    return Schema((Field("x", dtype, shape, optional=optional),))


def random_rows(dtype, num, width):
    values = RANDOM.integers(0, 2 if dtype == "bool" else 90, (num, width)) * np.arange(
        1, width + 1
    )
    if dtype in {"int32", "float32", "float64"}:
        values = values * 1000 - 20_000
    return values.astype(np.dtype(dtype))


def statistics_of(schema, *parts):
    statistics = Statistics(schema)
    for part in parts:
        statistics.update_columns({"x": part})
    return statistics


def entry(statistics):
    return json.loads(json.dumps(statistics.to_json(), allow_nan=False))["x"]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("num", [1, 700, 40_000])
def test_a_component_has_the_statistics_of_a_scalar_field(dtype, num):
    rows = random_rows(dtype, num, 3)
    found = entry(statistics_of(schema_of(dtype, (3,)), rows))["components"]
    assert len(found) == 3
    for number, component in enumerate(found):
        scalar = entry(statistics_of(schema_of(dtype, ()), np.ascontiguousarray(rows[:, number])))
        for key in ("values", "not_finite", "min", "max", "histogram"):
            assert component[key] == scalar[key], key
        for key in ("mean", "std"):
            assert component[key] == pytest.approx(scalar[key], rel=1e-9), key


@pytest.mark.parametrize("dtype", NUMBERS)
def test_the_field_is_the_sum_of_its_components(dtype):
    rows = random_rows(dtype, 5000, 5)
    found = entry(statistics_of(schema_of(dtype, (5,)), rows))
    flat = FieldStatistics(Field("x", dtype, (5,)), components=False)
    flat.update_column(rows, len(rows))
    expected = json.loads(json.dumps(flat.to_json()))
    del found["components"]
    for key in ("mean", "std"):
        assert found.pop(key) == pytest.approx(expected.pop(key), rel=1e-12)
    assert found == expected


def test_values_that_are_not_finite_are_counted_by_component():
    rows = np.array([[1.0, math.nan, 3.0], [math.inf, -math.inf, 4.0]])
    found = entry(statistics_of(schema_of("float64", (3,)), rows))
    assert [each["not_finite"] for each in found["components"]] == [1, 2, 0]
    assert [each["values"] for each in found["components"]] == [1, 0, 2]
    assert (found["not_finite"], found["values"]) == (3, 3)
    assert found["components"][1]["min"] is None


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
def test_samples_one_by_one_give_the_same_to_the_last_digit(dtype):
    rows = random_rows(dtype, 20_000, 2)
    schema = schema_of(dtype, (2,))
    one_by_one, parts = Statistics(schema), Statistics(schema)
    for row in rows:
        one_by_one.update({"x": row})
    for start, end in pairwise([0, 1, 700, 16_384, 16_385, 20_000]):
        parts.update_columns({"x": rows[start:end]})
    assert one_by_one.to_json() == parts.to_json()


@given(
    hnp.arrays("<f8", st.tuples(st.integers(0, 20), st.just(2))),
    hnp.arrays("<f8", st.tuples(st.integers(0, 20), st.just(2))),
    st.booleans(),
)
@settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_histograms_do_not_depend_on_parts_or_order(left, right, through_json):
    schema = schema_of("float64", (2,))
    one, other = statistics_of(schema, left), statistics_of(schema, right)
    if through_json:
        one, other = (
            Statistics.from_json(schema, json.loads(json.dumps(part.to_json())))
            for part in (one, other)
        )
    before = one.to_json()
    other.merge(one)
    assert one.to_json() == before
    whole, merged = entry(statistics_of(schema, np.concatenate([left, right]))), entry(other)
    assert merged["histogram"] == whole["histogram"]
    for mine, expected in zip(merged["components"], whole["components"], strict=True):
        for key in ("values", "not_finite", "min", "max", "histogram"):
            assert mine[key] == expected[key]


def test_few_different_values_are_counted_exactly_and_many_not_at_all():
    rows = np.stack([RANDOM.integers(-3, 61, 9000), RANDOM.integers(0, 65, 9000)], axis=1)
    schema = schema_of("int64", (2,))
    rows[:65, 1] = np.arange(65)
    parts = [statistics_of(schema, part) for part in np.array_split(rows, 3)]
    for part in parts[1:]:
        parts[0].merge(Statistics.from_json(schema, part.to_json()))
    few, many = entry(parts[0])["components"]
    counts = Counter(rows[:, 0].tolist())
    assert few["top"] == [list(p) for p in sorted(counts.items(), key=lambda p: (-p[1], p[0]))]
    assert "top" not in many
    assert (
        "top"
        not in Statistics.from_json(schema, parts[0].to_json()).to_json()["x"]["components"][1]
    )


def test_absent_samples_count_in_no_component():
    column = np.ma.array(np.arange(6.0).reshape(3, 2), mask=[[0, 0], [1, 1], [0, 0]])
    found = entry(statistics_of(schema_of("float64", (2,), optional=True), column))
    assert (found["count"], found["nulls"]) == (3, 1)
    assert [each["values"] for each in found["components"]] == [2, 2]
    assert [each["mean"] for each in found["components"]] == [2, 3]


@pytest.mark.parametrize(
    ("shape", "expected"), [((64,), 64), ((8, 8), 64), ((65,), 0), ((None,), 0), ((1,), 1), ((), 0)]
)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_components_are_those_of_small_fixed_shapes(shape, expected, dtype):
    statistics = Statistics(schema_of(dtype, shape))
    statistics.update({"x": np.zeros([2 if n is None else n for n in shape], dtype)})
    found = entry(statistics)
    assert len(found.get("components", [])) == expected
    assert components_of_schema(schema_of(dtype, shape)) == expected


def test_a_schema_has_a_bounded_number_of_components():
    schema = Schema(tuple(Field(f"f{n}", "float32", (60,)) for n in range(20)))
    found = Statistics(schema).to_json()
    assert [name for name in found if "components" in found[name]] == [f"f{n}" for n in range(17)]
    assert components_of_schema(schema) == 17 * 60


@pytest.mark.parametrize("dtype", ["int32", "float32", "int8"])
def test_statistics_of_an_earlier_release_are_read_and_added(dtype):
    schema = schema_of(dtype, (2, 2))
    rows = random_rows(dtype, 100, 4).reshape(100, 2, 2)
    new = statistics_of(schema, rows)
    old = new.to_json()
    del old["x"]["components"]
    for mine, others in ((new, old), (Statistics.from_json(schema, old), new.to_json())):
        mine.merge(Statistics.from_json(schema, others))
        found = entry(mine)
        assert "components" not in found
        assert found["values"] == 800
        assert sum(count for _, count in found["histogram"]) == 800


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(components=None),
        lambda found: found["components"].pop(),
        lambda found: found["components"].__setitem__(0, 3),
        lambda found: found["components"][0].update(values=1),
        lambda found: found["components"][0].update(histogram=[["a", 2]]),
        lambda found: found["components"][0].update(histogram=[[None, 2]]),
        lambda found: found["components"][0].update(mean="a"),
        lambda found: found["components"][0].update(top=[[0.5, 2]]),
        lambda found: found["components"][0].pop("not_finite"),
    ],
)
def test_components_that_are_none_are_a_format_error(change):
    schema = schema_of("int32", (2,))
    value = statistics_of(schema, np.ones((2, 2), np.int32)).to_json()
    change(value["x"])
    with pytest.raises(FormatError):
        Statistics.from_json(schema, value)


def test_components_of_a_field_that_has_none_are_a_format_error():
    schema = schema_of("int32", ())
    value = Statistics(schema).to_json()
    value["x"]["components"] = []
    with pytest.raises(FormatError):
        Statistics.from_json(schema, value)


@pytest.mark.parametrize(("last", "is_counted"), [(63, True), (64, False)])
def test_values_are_too_many_when_all_parts_together_have_65(last, is_counted):
    schema = schema_of("int32", (1,))
    parts = [np.arange(start, end, dtype="i4") for start, end in ((0, 40), (20, last + 1))]
    left, right = (statistics_of(schema, part.reshape(-1, 1)) for part in parts)
    left.merge(right)
    in_blocks = Statistics(schema)
    for part in parts:
        in_blocks.update_columns({"x": np.repeat(part, 1 << 14).reshape(-1, 1)})
    for statistics in (left, in_blocks):
        assert ("top" in entry(statistics)["components"][0]) is is_counted
