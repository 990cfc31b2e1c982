"""Statistics compared with what numpy says about all values at once."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.samples import Field, FieldStatistics, Schema, Statistics

SCHEMA = Schema((Field("n", "int32", (3,)), Field("x", "float32", (), optional=True)))
NUMBERS = Schema((Field("x", "float64"),))


def columns(num_samples, seed=1):
    generator = np.random.default_rng(seed)
    absent = generator.random(num_samples) < 0.2
    numbers = generator.integers(-50, 1000, (num_samples, 3)).astype(np.int32)
    floats = np.ma.array(generator.normal(7, 3, num_samples).astype(np.float32), mask=absent)
    return {"n": numbers, "x": floats}


def test_statistics_are_those_of_numpy():
    data = columns(50_000)
    statistics = Statistics(SCHEMA)
    statistics.update_columns(data)
    result = statistics.to_json()
    for name, values in (("n", data["n"]), ("x", data["x"].compressed())):
        exact = values.astype(np.float64)
        assert result[name]["count"] == 50_000
        assert result[name]["nulls"] == (0 if name == "n" else int(data["x"].mask.sum()))
        assert result[name]["values"] == exact.size
        assert (result[name]["min"], result[name]["max"]) == (exact.min(), exact.max())
        assert math.isclose(result[name]["mean"], exact.mean(), rel_tol=1e-12)
        assert math.isclose(result[name]["std"], exact.std(), rel_tol=1e-12)
    assert isinstance(result["n"]["min"], int)


def test_cut_of_the_columns_does_not_change_the_last_digit():
    data = columns(40_000)
    whole, parts = Statistics(SCHEMA), Statistics(SCHEMA)
    whole.update_columns(data)
    bounds = [0, 1, 2, 700, 20_000, 20_001, 39_999, 40_000]
    for start, end in pairwise(bounds):
        parts.update_columns({name: column[start:end] for name, column in data.items()})
    assert whole.to_json() == parts.to_json()


def test_reading_the_statistics_does_not_change_what_follows():
    data = columns(40_000)
    read, unread = Statistics(SCHEMA), Statistics(SCHEMA)
    for start in range(0, 40_000, 9_999):
        part = {name: column[start : start + 9_999] for name, column in data.items()}
        read.update_columns(part)
        read.to_json()
        unread.update_columns(part)
    assert read.to_json() == unread.to_json()


@given(st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5), max_size=5))
@settings(derandomize=True, deadline=None)
def test_merged_parts_equal_the_whole(parts):
    schema = Schema((Field("n", "int64"),))
    whole, merged = Statistics(schema), Statistics(schema)
    for part in parts:
        other = Statistics(schema)
        for value in part:
            whole.update({"n": value})
            other.update({"n": value})
        before = other.to_json()
        merged.merge(other)
        assert other.to_json() == before
    expected, actual = whole.to_json()["n"], merged.to_json()["n"]
    for name in ("count", "nulls", "values", "min", "max"):
        assert actual[name] == expected[name]
    for name in ("mean", "std"):
        if expected[name] is None:
            assert actual[name] is None
        else:
            assert math.isclose(actual[name], expected[name], rel_tol=1e-9, abs_tol=1e-5)


@given(
    hnp.arrays(np.float64, st.integers(0, 20), elements=st.floats(width=64)),
    hnp.arrays(np.float64, st.integers(0, 20), elements=st.floats(width=64)),
)
@settings(derandomize=True, deadline=None)
def test_any_floats_give_json_without_nan_that_reads_back(left, right):
    statistics, other = Statistics(NUMBERS), Statistics(NUMBERS)
    statistics.update_columns({"x": left})
    other.update_columns({"x": right})
    text = json.dumps(statistics.to_json(), allow_nan=False)
    restored = Statistics.from_json(NUMBERS, json.loads(text))
    restored.merge(Statistics.from_json(NUMBERS, other.to_json()))
    finite = np.concatenate([left, right])
    finite = finite[np.isfinite(finite)]
    result = json.loads(json.dumps(restored.to_json(), allow_nan=False))["x"]
    assert result["values"] == finite.size
    assert result["not_finite"] == left.size + right.size - finite.size
    assert result["min"] == (finite.min() if finite.size else None)
    assert result["max"] == (finite.max() if finite.size else None)


def test_json_of_what_was_read_back_is_the_same():
    statistics = Statistics(SCHEMA)
    statistics.update_columns(columns(1000))
    value = statistics.to_json()
    again = Statistics.from_json(SCHEMA, value).to_json()
    for name in ("n", "x"):
        for key in value[name].keys() - {"std"}:
            assert again[name][key] == value[name][key], key
        assert again[name]["std"] == pytest.approx(value[name]["std"], rel=1e-15)


@pytest.mark.parametrize("values", [[0.0, -0.0], [-0.0, 0.0], [-0.0]])
def test_zero_has_no_sign(values):
    statistics = Statistics(NUMBERS)
    for value in values:
        statistics.update({"x": value})
    result = statistics.to_json()["x"]
    assert [math.copysign(1, result[name]) for name in ("min", "max")] == [1, 1]


def test_no_samples_give_counts_of_zero_and_nothing_else():
    result = Statistics(Schema((Field("x", "bool"), Field("t", "str")))).to_json()
    sketches = {"top": [], "top_error": 0, "top_skipped": 0}
    assert result == {
        "x": {
            "count": 0, "nulls": 0, "values": 0, "not_finite": 0,
            "min": None, "max": None, "mean": None, "std": None,
            "histogram": [], "quantiles": None, **sketches,
        },
        "t": {
            "count": 0, "nulls": 0,
            "min_length": None, "max_length": None, "mean_length": None, "total_length": 0,
            **sketches,
        },
    }  # fmt: skip


def test_texts_are_measured_in_stored_bytes():
    schema = Schema((Field("t", "str", optional=True), Field("v", "int8", (None,))))
    statistics = Statistics(schema)
    for text in ("ä", None, "", "abc"):
        statistics.update({"t": text, "v": [1, 2]})
    other = Statistics.from_json(schema, statistics.to_json())
    other.merge(statistics)
    for part, factor in ((statistics, 1), (other, 2)):
        result = part.to_json()["t"]
        assert (result["count"], result["nulls"]) == (4 * factor, factor)
        assert (result["min_length"], result["max_length"]) == (0, 3)
        assert (result["mean_length"], result["total_length"]) == (5 / 3, 5 * factor)
        assert part.to_json()["v"]["values"] == 8 * factor


def test_booleans_are_zeros_and_ones():
    statistics = FieldStatistics(Field("x", "bool", (4,)))
    statistics.update([True, False, True, True])
    result = statistics.to_json()
    assert (result["min"], result["max"], result["mean"]) == (0, 1, 0.75)


def test_large_integers_keep_their_range_exactly():
    statistics = FieldStatistics(Field("x", "uint64"))
    statistics.update(2**64 - 1)
    statistics.update(2**53 + 1)
    assert (statistics.to_json()["min"], statistics.to_json()["max"]) == (2**53 + 1, 2**64 - 1)


def test_values_are_copied():
    statistics, memory = FieldStatistics(Field("x", "int8", (2,))), np.array([1, 2], dtype=np.int8)
    statistics.update(memory)
    memory[:] = 100
    assert statistics.to_json()["max"] == 2


@pytest.mark.parametrize(
    "update",
    [
        lambda statistics: statistics.update({"n": [1, 2, 3], "x": "text"}),
        lambda statistics: statistics.update({"n": None, "x": 1.0}),
        lambda statistics: statistics.update_columns({"x": np.zeros(3)}),
        lambda statistics: statistics.update_columns({"n": np.zeros((3, 2))}),
        lambda statistics: statistics.update_columns({"n": np.zeros((3, 3)), "y": np.zeros(3)}),
        lambda statistics: statistics.merge(Statistics(NUMBERS)),
        lambda statistics: statistics.merge(
            Statistics(Schema((Field("n", "int32", (3,)), Field("x", "float32"))))
        ),
    ],
)
def test_what_is_none_of_the_schema_is_refused(update):
    with pytest.raises(SampleShapeError):
        update(Statistics(SCHEMA))


def test_field_that_varies_in_size_has_no_columns():
    statistics = Statistics(Schema((Field("t", "str"),)))
    with pytest.raises(TypeError, match="update sample by sample"):
        statistics.update_columns({"t": np.array(["a"])})


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"n": {}, "x": {}},
        {"n": None, "x": None},
        {"n": {"count": 1, "nulls": 0}, "x": {"count": 1, "nulls": 0}},
        {"n": {"count": "many", "nulls": 0}, "x": {}},
    ],
)
def test_json_that_is_no_statistics_is_a_format_error(value):
    with pytest.raises(FormatError):
        Statistics.from_json(SCHEMA, value)


def _waiting_bytes(statistics):
    return sum(field._content._rows.num_bytes for field in statistics.fields.values())


def test_numbers_of_very_many_fields_wait_within_a_bound():
    """Blocks of 16,384 values would be 128 MiB of 1,000 fields, and 1.3 GB of 10,000."""
    schema = Schema(tuple(Field(f"f{number}", "int64") for number in range(1000)))
    statistics = Statistics(schema)
    column = np.arange(6000)
    for _ in range(2):
        statistics.update_columns(dict.fromkeys(schema.names, column))
    assert 0 < _waiting_bytes(statistics) <= 32 << 20
    assert statistics.fields["f0"].to_json()["values"] == 12_000


def test_blocks_of_few_fields_stay_as_they_were():
    """How many numbers are taken at once shows in the last digit of a mean."""
    fields = [Field(f"f{number}", "float64") for number in range(256)]
    for count, size in ((1, 1 << 14), (256, 1 << 14)):
        found = Statistics(Schema(tuple(fields[:count]))).fields["f0"]._content._rows.block_rows
        assert found == size


def test_asking_for_statistics_changes_nothing_of_what_they_are():
    one, other = (Statistics(Schema((Field("n", "int64"),))) for _ in range(2))
    for statistics in (one, other):
        statistics.update({"n": 3})
    merged = Statistics(Schema((Field("n", "int64"),)))
    merged.merge(one)
    merged.merge(other)
    assert merged.to_json() == merged.to_json()
    assert one.to_json() == other.to_json()
    merged.update({"n": 4})
    assert (merged.fields["n"].count, one.fields["n"].count) == (3, 1)
    assert one.to_json()["n"]["top"] == [[3, 1]]
    assert merged.to_json()["n"]["top"] == [[3, 2], [4, 1]]
