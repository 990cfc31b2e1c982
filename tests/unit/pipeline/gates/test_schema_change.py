"""Changes of a schema: each is of one class by a stated rule, for all pairs of types."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from trainfeed.pipeline.gates.schema import schema_changes, type_change

NUMBERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
NUMBERS += ["float16", "float32", "float64"]
TYPES = [*NUMBERS, "bool", "bytes", "str"]
FLOATS = [np.finfo(name) for name in ("float16", "float32", "float64")]
STEPS = product(range(66), (-1, 1), (-1, 0, 1))
PROBES = {Fraction(sign * (1 << bits) + step) for bits, sign, step in STEPS}
PROBES |= {Fraction(float(number)) for info in FLOATS for number in (info.max, info.tiny)}
PROBES |= {1 + Fraction(float(info.eps)) for info in FLOATS}


def has(dtype: str, number: Fraction) -> bool:
    """Whether a type of numpy holds a number exactly."""
    if "float" not in dtype:
        bounds = np.iinfo(dtype)
        return number.denominator == 1 and bounds.min <= number <= bounds.max
    with np.errstate(over="ignore"):
        value = float(np.dtype(dtype).type(float(number)))
    return math.isfinite(value) and Fraction(value) == number


def holds(outer: str, inner: str) -> bool:
    if outer not in NUMBERS or inner not in NUMBERS:
        return False
    return all(has(outer, number) for number in PROBES if has(inner, number))


@pytest.mark.parametrize(("before", "now"), list(permutations(TYPES, 2)))
def test_the_class_of_every_pair_of_types_is_that_of_their_values(before: str, now: str) -> None:
    expected = "incompatible"
    if holds(before, now):
        expected = "narrowed"
    if holds(now, before):
        expected = "widened"
    assert type_change(before, now) == expected


def field(dtype: str = "int32", shape: tuple[int | None, ...] = (), **more: Any) -> dict[str, Any]:
    return {"name": "x", "dtype": dtype, "shape": list(shape), **more}


OTHER = {"name": "y", "dtype": "str", "shape": []}


@pytest.mark.parametrize(
    ("before", "now", "kinds"),
    [
        ([OTHER], [OTHER, field()], ["added_required"]),
        ([OTHER], [OTHER, field(optional=True)], ["added_optional"]),
        ([field(), OTHER], [OTHER], ["removed"]),
        ([field(optional=True), OTHER], [OTHER], ["removed"]),
        ([field()], [field("int64")], ["widened"]),
        ([field()], [field("int16")], ["narrowed"]),
        ([field()], [field("str")], ["incompatible"]),
        ([field(shape=(3,))], [field(shape=(4,))], ["shape"]),
        ([field(shape=(3,))], [field(shape=(None,))], ["shape"]),
        ([field(shape=(3,))], [field(shape=(3, 1))], ["shape"]),
        ([field()], [field(optional=True)], ["made_optional"]),
        ([field(optional=True)], [field()], ["made_required"]),
        ([field()], [field("int8", (2,), optional=True)], ["narrowed", "shape", "made_optional"]),
        ([field(), OTHER], [OTHER, field()], []),
        ([field()], [field()], []),
    ],
)
def test_every_change_of_a_field_is_reported(
    before: list[Any], now: list[Any], kinds: list[str]
) -> None:
    assert [change.change for change in schema_changes(before, now)] == kinds


def test_a_change_says_both_sides() -> None:
    (narrowed, shape) = schema_changes([field("float64")], [field("float32", (None, 2))])
    assert str(narrowed) == "x narrowed (float64 → float32 (n, 2))"
    assert shape.to_json() == {
        "field": "x",
        "change": "shape",
        "before": "float64",
        "now": "float32 (n, 2)",
    }
    (removed,) = schema_changes([field(), OTHER], [OTHER])
    assert str(removed) == "x removed (int32)"
