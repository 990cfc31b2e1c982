"""Gates on the values of a field: accepted values, and the share of one value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.pipeline.gates.scanned import Blocks, objects
from trainfeed.pipeline.gates.result import Counts, Facts
from trainfeed.pipeline.gates.samples import AcceptedValues, Share

NOTHING = Facts(Counts(read=0, quarantined=0, samples=0, late=0, fields={}))


def accepted(column: Any, values: tuple[object, ...], most: float = 0) -> Any:
    gate = {"check": "accepted_values", "field": "x", "values": values, "max": most}
    scan = AcceptedValues({**gate, "severity": "block"}, NOTHING)
    for block in Blocks({"x": column}, 3):
        scan.add(block)
    return scan.result()


def share(column: Any, value: object, **limits: float) -> Any:
    scan = Share({"check": "share", "field": "x", "equals": value, **limits}, NOTHING)
    for block in Blocks({"x": column}, 3):
        scan.add(block)
    return scan.result()


@pytest.mark.parametrize(
    ("column", "values", "others"),
    [
        (np.array([1, 2, 3, 1], np.int8), (1, 2), 1),
        (np.array([0, 255], np.uint8), (255,), 1),
        (np.array([2**64 - 1, 0], np.uint64), (2**64 - 1,), 1),
        (np.array([True, False, True]), (True,), 1),
        (np.ma.MaskedArray(np.array([1, 0, 5]), [False, True, False]), (1,), 1),
        (objects(["a", "é", None, "c"]), ("a", "é"), 1),
        (objects([b"a", "é".encode(), b"\xff"]), ("a", "é"), 1),
        (np.array([1, 1]), (1,), 0),
    ],
    ids=str,
)
def test_other_values_are_counted_and_named(
    column: Any, values: tuple[object, ...], others: int
) -> None:
    result = accepted(column, values)
    assert result.value == others / len(column)
    assert result.passed is (others == 0)
    assert len(result.examples) == others
    assert result.because.startswith(f"{others} of {len(column)} samples have another value")


def test_the_most_frequent_other_values_are_named_with_examples() -> None:
    result = accepted(objects(["a", "?", "b", "?", "?", "!"]), ("a", "b"), 0.5)
    assert result.because == "4 of 6 samples have another value: '?' 3 times, '!' 1 times"
    assert [example.message for example in result.examples] == ["x is '?'", "x is '?'"]
    assert [example.offset for example in result.examples] == [1, 3]
    assert not result.passed
    assert accepted(objects(["a", "?"]), ("a",), 0.5).passed


def test_very_many_other_values_take_bounded_memory() -> None:
    result = accepted(np.arange(5000), (0,))
    assert result.because.startswith("4999 of 5000 samples have another value: ")
    assert len(result.because) < 200


def test_no_samples_have_no_other_values() -> None:
    assert accepted(np.array([], np.int64), (1,)).passed


@pytest.mark.parametrize(
    ("column", "value", "found"),
    [
        (np.array([1, 0, 1, 1]), 1, 0.75),
        (np.array([True, False]), False, 0.5),
        (np.ma.MaskedArray(np.array([1, 1]), [True, False]), 1, 0.5),
        (objects(["a", None, "b", "b"]), "b", 0.5),
        (objects([b"a", b"b"]), "b", 0.5),
        (np.array([300], np.int16), 44, 0.0),
    ],
    ids=str,
)
def test_the_share_is_of_all_samples(column: Any, value: object, found: float) -> None:
    assert share(column, value, min=found, max=found).value == found
    assert share(column, value, min=found, max=found).passed
    assert not share(column, value, min=found + 0.1).passed
    assert not share(column, value, max=found - 0.1).passed


def test_the_share_of_no_samples_is_unknown_and_passes() -> None:
    result = share(np.array([], np.int64), 1, min=0.5)
    assert (result.value, result.passed) == (None, True)
