"""The gate on unique keys: exact, in bounded memory, whatever the types of the fields."""

from __future__ import annotations

import math
import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.pipeline.gates.scanned import Blocks, objects
from trainfeed.pipeline.gates import samples as _unique_gate
from trainfeed.pipeline.gates.samples import doubled_keys

SMALL = 1 << 10
PLENTY = 1 << 30


def plain(value: Any) -> Any:
    """The value as the oracle compares it: equal numbers are equal, and so are all NaN."""
    if isinstance(value, np.ndarray):
        return ("array", tuple(map(plain, value.ravel().tolist())))
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def oracle(rows: list[tuple[Any, ...]]) -> int:
    """The number of samples whose key another one before it has."""
    counts = Counter(tuple(map(plain, row)) for row in rows)
    return sum(count - 1 for count in counts.values())


def columns(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    ints, floats, texts = zip(*rows, strict=True)
    absent = [value is None for value in ints]
    return {
        "int": np.ma.MaskedArray(np.array([v or 0 for v in ints], np.int16), absent),
        "float": np.array(floats, np.float64),
        "text": objects(texts),
    }


VALUES = st.tuples(
    st.none() | st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf]),
    st.none() | st.sampled_from(["", "a", "ab", "b", "\x00", "é"]),
)


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(VALUES, min_size=1, max_size=40), block=st.integers(1, 9), data=st.data())
def test_the_count_is_that_of_a_plain_count(
    rows: list[tuple[Any, ...]], block: int, data: st.DataObject
) -> None:
    by = data.draw(st.sampled_from([["int"], ["float"], ["text"], ["int", "text"], [*"x"][:0]]))
    by = by or ["int", "float", "text"]
    memory = data.draw(st.sampled_from([SMALL, PLENTY]))
    table = columns(rows)
    places = {"int": 0, "float": 1, "text": 2}
    keys = [tuple(row[places[name]] for name in by) for row in rows]
    doubled, examples = doubled_keys(Blocks(table, block), by, len(rows), memory)
    assert doubled == oracle(keys)
    assert len(examples) == min(doubled, 2)


def test_keys_of_equal_hash_are_compared_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"key {number}" for number in range(300)] + ["key 7"]
    hashes = _unique_gate.key_hashes
    monkeypatch.setattr(_unique_gate, "key_hashes", lambda found: hashes(found) % np.uint64(3))
    doubled, (example,) = doubled_keys(Blocks({"id": objects(keys)}, 7), ["id"], 301, PLENTY)
    assert doubled == 1
    assert example.lines("unique") == [
        "  unique at kafka:clicks/0 offset 300: id 'key 7', as at kafka:clicks/0 offset 7"
    ]


def test_fields_side_by_side_are_not_confused() -> None:
    first, second = ["x", "xy", "x", "x\x01"], ["yz", "z", "\x01y", "y"]
    table = {"a": objects(first), "b": objects(second)}
    assert doubled_keys(Blocks(table, 2), ["a", "b"], 4, PLENTY)[0] == 0


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_arrays_are_keys_too(shape: tuple[int, ...]) -> None:
    rows = np.stack([np.full(shape, number % 5, np.uint8) for number in range(12)])
    assert doubled_keys(Blocks({"x": rows}, 5), ["x"], 12, PLENTY)[0] == 7
    lists = objects([np.arange(number % 4, dtype=np.float32) for number in range(12)])
    assert doubled_keys(Blocks({"x": lists}, 5), ["x"], 12, PLENTY)[0] == 8


def test_long_keys_are_compared_by_digest() -> None:
    keys = objects(["x" * 1000 + str(number % 50) for number in range(60)])
    assert doubled_keys(Blocks({"id": keys}, 20), ["id"], 60, PLENTY)[0] == 10


@pytest.mark.parametrize("distinct", [6000, 5700, 1])
def test_the_memory_is_bounded_whatever_is_doubled(distinct: int) -> None:
    """Sorted as one, 6,000 hashes take 200 KB, and keys that are compared 2 MB."""
    num_samples, memory = 6000, 32 << 10
    blocks = Blocks({"id": np.arange(num_samples) % distinct}, 250)
    tracemalloc.start()
    try:
        doubled, _ = doubled_keys(blocks, ["id"], num_samples, memory)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert doubled == num_samples - distinct
    # The bound, and one block of 250 samples with its keys and hashes.
    assert peak < memory + (64 << 10)
