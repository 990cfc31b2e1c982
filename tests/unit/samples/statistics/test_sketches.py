"""Histograms, quantiles and frequent values: right within what they promise, mergeable."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trainfeed.samples import Field, Schema, Statistics
from trainfeed.samples.sketches import byte_counts, byte_values

RANDOM = np.random.default_rng(7)


def schema_of(dtype, shape=()):
    return Schema((Field("x", dtype, shape),))


def taken(schema, *parts):
    statistics = Statistics(schema)
    for part in parts:
        statistics.update_columns({"x": part})
    return statistics


def entry(statistics):
    return json.loads(json.dumps(statistics.to_json(), allow_nan=False))["x"]


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("float64", RANDOM.normal(size=40_000)),
        ("float32", RANDOM.lognormal(0, 9, 40_000)),
        ("int64", RANDOM.integers(-(2**40), 2**40, 40_000)),
        ("int16", RANDOM.integers(-12, 12, 40_000)),
        ("float64", np.array([5.5])),
        ("float64", np.array([1e308, -1e308, 5e-324, 0.0, -0.0])),
    ],
)
def test_quantiles_are_within_a_sixteenth(dtype, values):
    values = values.astype(dtype)
    for share, found in entry(taken(schema_of(dtype), values))["quantiles"].items():
        exact = float(np.quantile(values, float(share), method="inverted_cdf"))
        assert abs(found - exact) <= abs(exact) / 16 + 1e-300, (share, found, exact)


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_a_quantile_of_zeros_is_zero(dtype):
    values = np.array([0] * 60 + [1] * 40, dtype)
    quantiles = entry(taken(schema_of(dtype), values))["quantiles"]
    assert [quantiles[share] for share in ("0.01", "0.5", "0.75")] == [0, 0, 1]


@pytest.mark.parametrize("num", [0, 1, 5, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, (1 << 20) + 3])
@pytest.mark.parametrize("dtype", ["u1", "i1"])
def test_bytes_are_counted_the_same_in_pairs_as_one_by_one(num, dtype):
    numbers = np.random.default_rng(num).integers(0, 256, num + 1).astype("u1").view(dtype)[1:]
    numbers[: num // 3] = 0
    expected = [int(np.count_nonzero(numbers == value)) for value in byte_values(numbers.dtype)]
    assert byte_counts(numbers).tolist() == expected


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool"])
def test_dtypes_of_one_byte_are_counted_exactly(dtype):
    values = RANDOM.integers(0, 2 if dtype == "bool" else 100, (5000, 3)).astype(dtype)
    found = entry(taken(schema_of(dtype, (3,)), values))
    counts = Counter(values.ravel().astype(int).tolist())
    assert found["histogram"] == [list(item) for item in sorted(counts.items())]
    assert (
        found["top"]
        == [list(item) for item in sorted(counts.items(), key=lambda i: (-i[1], i[0]))][:64]
    )
    assert found["top_error"] == 0
    flat = values.ravel().astype(int)
    for share, value in found["quantiles"].items():
        assert value == np.quantile(flat, float(share), method="inverted_cdf")


@given(
    hnp.arrays("<f8", st.integers(0, 60)),
    hnp.arrays("<f8", st.integers(0, 60)),
    st.booleans(),
)
@settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_histogram_does_not_depend_on_parts_or_order(left, right, through_json):
    schema = schema_of("float64")
    one, other = taken(schema, left), taken(schema, right)
    if through_json:
        one, other = (Statistics.from_json(schema, part.to_json()) for part in (one, other))
    other.merge(one)
    whole = entry(taken(schema, np.concatenate([left, right])))
    merged = entry(other)
    for key in ("histogram", "quantiles"):
        assert merged[key] == whole[key]
    assert sum(count for _, count in whole["histogram"]) == whole["values"]
    names = [name for name, _ in whole["histogram"]]
    assert names == sorted(set(names))


@pytest.mark.parametrize("dtype", ["int64", "str", "bytes"])
def test_few_different_values_are_counted_exactly_in_any_parts(dtype):
    numbers = RANDOM.zipf(1.5, 60_000) % 60
    schema = schema_of(dtype)
    kinds = {"int64": np.int64, "str": lambda n: f"é{n}", "bytes": lambda n: bytes([n])}
    values = [kinds[dtype](int(n)) for n in numbers]
    parts = [Statistics(schema) for _ in range(3)]
    for i, value in enumerate(values):
        parts[i // 25_000].update({"x": value})
    for part in parts[1:]:
        parts[0].merge(Statistics.from_json(schema, part.to_json()))
    found = entry(parts[0])
    as_json = {"int64": int, "str": lambda v: v.encode().hex(), "bytes": lambda v: v.hex()}[dtype]
    counts = Counter(map(as_json, values))
    assert dict(found["top"]) == counts
    assert found["top_error"] == 0
    assert [count for _, count in found["top"]] == sorted(counts.values(), reverse=True)


@pytest.mark.parametrize("as_text", [False, True])
def test_of_many_values_the_frequent_ones_are_found_within_the_error(as_text):
    numbers = RANDOM.zipf(1.2, 60_000) % 1_000_003
    schema = schema_of("str" if as_text else "int64")
    statistics = Statistics(schema)
    if as_text:
        for number in numbers:
            statistics.update({"x": str(number)})
    else:
        statistics.update_columns({"x": numbers})
    found = entry(statistics)
    counts = Counter(str(n).encode().hex() if as_text else int(n) for n in numbers)
    assert 0 < len(found["top"]) <= 64
    for value, count in found["top"]:
        assert count <= counts[value] <= count + found["top_error"]
    kept = {value for value, _ in found["top"]}
    assert all(value in kept for value, count in counts.items() if count > found["top_error"])


def test_long_text_is_counted_apart():
    statistics = Statistics(schema_of("str"))
    for value in ("a" * 64, "a" * 65, "é" * 40):
        statistics.update({"x": value})
    found = entry(statistics)
    assert found["top"] == [["61" * 64, 1]]
    assert found["top_skipped"] == 2


def test_taking_json_in_between_changes_nothing():
    schema = schema_of("str")
    quiet, curious = Statistics(schema), Statistics(schema)
    for number in RANDOM.integers(0, 5000, 10_000):
        for statistics in (quiet, curious):
            statistics.update({"x": str(number)})
        if not number % 1000:
            curious.to_json()
    assert quiet.to_json() == curious.to_json()


def test_statistics_without_sketches_say_what_they_said_before():
    schema = Schema((Field("x", "int64"), Field("y", "str")))
    statistics = Statistics(schema, sketches=False)
    statistics.update({"x": 1, "y": "a"})
    numbers = {"values": 1, "not_finite": 0, "min": 1, "max": 1, "mean": 1.0, "std": 0.0}
    lengths = dict.fromkeys(("min_length", "max_length", "total_length"), 1)
    assert statistics.to_json() == {
        "x": {"count": 1, "nulls": 0, **numbers},
        "y": {"count": 1, "nulls": 0, "mean_length": 1.0, **lengths},
    }
    merged = Statistics(schema)
    merged.update({"x": 2, "y": "b"})
    merged.merge(Statistics.from_json(schema, statistics.to_json()))
    assert "histogram" not in merged.to_json()["x"], "half of a histogram is none"
    assert merged.to_json()["x"]["values"] == 2


def test_statistics_of_many_fields_of_few_values_are_small():
    """A histogram has the bins that are filled, not 32,768: 200 fields took 54 MiB."""
    schema = Schema(tuple(Field(f"f{number}", "int64") for number in range(200)))
    statistics = Statistics(schema)
    columns = {name: np.arange(100) for name in schema.names}
    tracemalloc.start()
    try:
        statistics.update_columns(columns)
        written = statistics.to_json()
        before, _ = tracemalloc.get_traced_memory()
        loaded = Statistics.from_json(schema, written)
        loaded.merge(statistics)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 8 << 20
    assert loaded.to_json()["f7"]["values"] == 200
