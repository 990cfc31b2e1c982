"""The table of column types: nothing is lost, neither on reading nor between two files."""

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from trainfeed.preprocessing.column_types import column_as_read, type_as_read, widened
from trainfeed.preprocessing.typed_fields import row_bytes

TIME = datetime(2024, 3, 1, 5, 6, 7, 8)  # noqa: DTZ001 - of a column without a zone
PAIRS = pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.int32())]))


@pytest.mark.parametrize(
    ("stored", "read", "values"),
    [
        (pa.int8(), pa.int8(), [1, None]),
        (pa.uint64(), pa.uint64(), [(1 << 64) - 1]),
        (pa.float16(), pa.float32(), [np.float16(0.1)]),
        (pa.bool_(), pa.bool_(), [True, None]),
        (pa.large_utf8(), pa.utf8(), ["é", None]),
        (pa.string_view(), pa.utf8(), ["é" * 30, None]),
        (pa.dictionary(pa.int8(), pa.large_utf8()), pa.utf8(), ["a", None, "a"]),
        (pa.binary(3), pa.binary(), [b"abc", None]),
        (pa.binary_view(), pa.binary(), [b"abc" * 9, None]),
        (pa.timestamp("ns"), pa.timestamp("us"), [TIME, None]),
        (pa.timestamp("ms", "UTC"), pa.timestamp("ms", "UTC"), []),
        (pa.date64(), pa.date32(), [date(2024, 3, 1), None]),
        (pa.decimal128(9, 2), pa.decimal128(9, 2), [Decimal("1.25"), None]),
        (pa.list_(pa.float32()), pa.list_(pa.float32()), [[0.5], None, []]),
        (pa.large_list(pa.large_utf8()), pa.list_(pa.utf8()), [["a"], None, [], [None, "b"]]),
        (pa.list_(pa.float32(), 2), pa.list_(pa.float32(), 2), [[1, 2], None]),
        (pa.list_(pa.large_utf8(), 2), pa.list_(pa.utf8(), 2), [["a", "b"], None, ["c", None]]),
        (pa.list_view(pa.int8()), pa.list_(pa.int8()), [[1], None, []]),
        (pa.struct({"a": pa.large_utf8()}), pa.struct({"a": pa.utf8()}), [{"a": "x"}, None]),
        (pa.map_(pa.utf8(), pa.int32()), PAIRS, [[("a", 1)], None, []]),
        (pa.null(), pa.null(), [None]),
    ],
)
def test_a_column_is_read_with_its_values(stored, read, values):
    assert type_as_read(stored).equals(read)
    column = pa.array(values, stored)
    for part in (column, column.slice(1)):
        found = column_as_read(part, read)
        found.validate(full=True)
        assert found.type.equals(read)
        expected = part.to_pylist()
        if pa.types.is_map(stored):
            expected = [v and [{"key": k, "value": x} for k, x in v] for v in expected]
        assert [v or None for v in found.to_pylist()] == [v or None for v in expected]


def test_a_run_is_read_as_what_it_stands_for():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))
    assert type_as_read(runs.type) == pa.utf8()
    assert column_as_read(runs, pa.utf8()).to_pylist() == ["a", "a", None]


@pytest.mark.parametrize(
    "kind",
    [
        pa.duration("s"),
        pa.month_day_nano_interval(),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.list_(pa.duration("s")),
        pa.struct([("a", pa.int8()), ("a", pa.int8())]),
    ],
)
def test_what_no_field_holds_is_refused(kind):
    assert type_as_read(kind) is None


def test_nanoseconds_that_are_no_microseconds_are_an_error():
    column = pa.array([1_000_000_001], pa.timestamp("ns"))
    with pytest.raises(pa.ArrowInvalid, match="lose data"):
        column_as_read(column, pa.timestamp("us"))


NUMBERS = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
    pa.uint64(), pa.float32(), pa.float64(),
]  # fmt: skip


def edges(kind):
    """The smallest and largest values of a type of numbers, and some that few others hold."""
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        return [int(limits.min), int(limits.max), int(limits.max) - 1, 0]
    return [0.1, -1e30, 16777217.0] if kind == pa.float64() else [0.5, 16777216.0, 2.0**-100]


@pytest.mark.parametrize(("one", "other"), list(product(NUMBERS, NUMBERS)))
def test_two_types_of_numbers_become_one_that_holds_all_values_of_both(one, other):
    both = widened(one, other)
    assert both == widened(other, one)
    if both is None:
        return
    for kind in (one, other):
        values = pa.array(edges(kind), kind)
        there = column_as_read(values, both)
        assert there.cast(kind).equals(values)
        # Not by the cast alone, which may lose and find again.
        assert [Fraction(v) for v in there.to_pylist()] == [Fraction(v) for v in values.to_pylist()]


def test_a_wider_type_is_found_where_there_is_one_and_only_there():
    assert widened(pa.int32(), pa.int64()) == pa.int64()
    assert widened(pa.uint32(), pa.int32()) == pa.int64()
    assert widened(pa.uint64(), pa.int64()) is None
    assert widened(pa.int32(), pa.float32()) == pa.float64()
    assert widened(pa.int64(), pa.float64()) is None
    assert widened(pa.null(), pa.utf8()) == widened(pa.utf8(), pa.null()) == pa.utf8()
    assert widened(pa.utf8(), pa.binary()) is None
    assert widened(pa.utf8(), pa.int8()) is None
    assert widened(pa.bool_(), pa.int8()) is None
    assert widened(pa.timestamp("s"), pa.timestamp("us")) == pa.timestamp("us")
    assert widened(pa.timestamp("s"), pa.timestamp("us", "UTC")) is None
    assert widened(pa.date32(), pa.timestamp("us")) is None
    assert widened(pa.decimal128(5, 2), pa.decimal128(5, 0)) == pa.decimal128(7, 2)
    assert widened(pa.decimal128(38, 0), pa.decimal128(38, 2)) is None
    lists = widened(pa.list_(pa.int8()), pa.list_(pa.int32()))
    assert lists == pa.list_(pa.int32())
    one, other = pa.struct({"a": pa.int8()}), pa.struct({"a": pa.int32()})
    assert widened(one, other) == other
    assert widened(one, pa.struct({"b": pa.int8()})) is None
    assert widened(one, pa.struct({"a": pa.utf8()})) is None


def test_the_bytes_of_a_row_are_those_of_its_values():
    kind = pa.struct(
        {
            "i": pa.int32(), "b": pa.bool_(), "s": pa.utf8(), "y": pa.binary(),
            "l": pa.list_(pa.int16()), "f": pa.list_(pa.utf8(), 2), "t": pa.timestamp("us"),
            "d": pa.decimal128(9, 2), "n": pa.null(), "x": pa.struct({"z": pa.float32()}),
        }
    )  # fmt: skip
    whole = {
        "i": 1, "b": True, "s": "é", "y": b"abc", "l": [1, None, 3], "f": ["a", "bc"], "t": TIME,
        "d": Decimal("1.25"), "n": None, "x": {"z": 1.0},
    }  # fmt: skip
    rows = [whole, None, dict.fromkeys(whole), {**whole, "l": [], "s": "", "x": {"z": None}}]
    expected = [4 + 1 + 2 + 3 + 4 + 3 + 8 + 16 + 4, 0, 0, 4 + 1 + 3 + 3 + 8 + 16]
    column = pa.array(rows, kind)
    assert row_bytes(column).tolist() == expected
    assert row_bytes(column.slice(2)).tolist() == expected[2:]
