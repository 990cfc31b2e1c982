"""The types of columns: what a reader gives for each, and what two of one name become.

Nothing is lost on the way: a type that has no row here is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Test = Callable[[pa.DataType], bool]
# Layouts of one kind of values, for everything that reads columns.
TEXTS: Final[tuple[Test, ...]] = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
)
BINARIES: Final[tuple[Test, ...]] = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)
# Of varying length; ``is_fixed_size_list`` is apart.
LISTS: Final[tuple[Test, ...]] = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
_SAME: Final[tuple[Test, ...]] = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_date32,
    pa.types.is_time32,
    pa.types.is_decimal,
)
# Tests → the type that is read.
_BECOMES: Final[tuple[tuple[tuple[Test, ...], pa.DataType], ...]] = (
    ((pa.types.is_float16,), pa.float32()),
    (TEXTS, pa.utf8()),
    (BINARIES, pa.binary()),
    ((pa.types.is_date64,), pa.date32()),
    ((pa.types.is_time64,), pa.time64("us")),
)
_UNITS: Final = ("s", "ms", "us")
# The most digits of decimal128.
_MOST_DIGITS: Final = 38
# Whole numbers of at most so many bits are exact as float64.
_EXACT_BITS: Final = 32


def is_of(kind: pa.DataType, tests: tuple[Test, ...]) -> bool:
    """Return whether a type is one of some kinds."""
    return any(test(kind) for test in tests)


def type_as_read(kind: pa.DataType) -> pa.DataType | None:
    """Return the type in which a reader gives the values of a column; None if none holds them.

    Dictionaries, runs, views and extensions become what they stand for; maps become lists of pairs;
    nanoseconds become microseconds, and a value that is not whole then is an error of the reading.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return type_as_read(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return type_as_read(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz) if kind.unit == "ns" else kind
    if is_of(kind, _SAME):
        return kind
    found = next((wanted for tests, wanted in _BECOMES if is_of(kind, tests)), None)
    return found or _nested_as_read(kind)


def _nested_as_read(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_map(kind):
        pair = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        return type_as_read(pa.list_(pair))
    if pa.types.is_struct(kind):
        parts = {part.name: type_as_read(part.type) for part in kind.fields}
        if None in parts.values() or len(parts) < kind.num_fields:
            return None
        return pa.struct(list(parts.items()))
    is_fixed = pa.types.is_fixed_size_list(kind)
    if not is_fixed and not is_of(kind, LISTS):
        return None
    item = type_as_read(kind.value_type)
    if item is None:
        return None
    return pa.list_(item, kind.list_size) if is_fixed else pa.list_(item)


def column_as_read(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return the values of a column as ``type_as_read``, or as a type that ``widened`` gives.

    Raises:
        pyarrow.ArrowInvalid: A value would be lost, such as nanoseconds.
    """
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if column.type.equals(wanted):
        return column
    return _nested(column, wanted) if pa.types.is_nested(wanted) else column.cast(wanted)


def _nested(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_null(column.type):
        return column.cast(wanted)
    if pa.types.is_struct(wanted):
        pairs = zip(column.flatten(), wanted.fields, strict=True)
        parts = [column_as_read(part, field.type) for part, field in pairs]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(wanted.fields), mask=mask)
    if pa.types.is_list(wanted):
        return _as_list(column, wanted)
    # Nulls among lists of fixed size have items, too, which ``flatten`` leaves out.
    items = column_as_read(column.values, wanted.value_type)
    first, length = column.offset * wanted.list_size, len(column) * wanted.list_size
    mask = column.is_null() if column.null_count else None
    return pa.FixedSizeListArray.from_arrays(items.slice(first, length), type=wanted, mask=mask)


def _as_list(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return lists, views of lists and maps as lists."""
    if pa.types.is_map(column.type):
        pairs = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
        column = column.cast(pa.list_(pairs))
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    ends = np.zeros(len(column) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    items = column_as_read(column.flatten(), wanted.value_type)
    mask = column.is_null() if column.null_count else None
    whole = pa.array(ends, pa.int64()).cast(pa.int32())
    return pa.ListArray.from_arrays(whole, items, type=wanted, mask=mask)


def widened(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return a type that holds all values of two types as read, without loss; None if none does."""
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    rules = (rule for test, rule in _WIDENINGS if test(one) and test(other))
    rule = next(rules, None)
    return None if rule is None else rule(one, other)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _widened_integers(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    both = np.promote_types(one.to_pandas_dtype(), other.to_pandas_dtype())
    return pa.from_numpy_dtype(both) if both.kind in "iu" else None


def _widened_numbers(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    whole = one if pa.types.is_integer(one) else other
    is_exact = not pa.types.is_integer(whole) or whole.bit_width <= _EXACT_BITS
    return pa.float64() if is_exact else None


def _widened_times(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    finer = max(one.unit, other.unit, key=_UNITS.index)
    return pa.timestamp(finer, one.tz) if one.tz == other.tz else None


def _widened_decimals(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    scale = max(one.scale, other.scale)
    digits = max(one.precision - one.scale, other.precision - other.scale) + scale
    return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS else None


def _widened_lists(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    item = widened(one.value_type, other.value_type)
    return None if item is None else pa.list_(item)


def _widened_structs(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if one.names != other.names:
        return None
    pairs = zip(one.fields, other.fields, strict=True)
    parts = [(part.name, widened(part.type, same.type)) for part, same in pairs]
    return None if any(kind is None for _, kind in parts) else pa.struct(parts)


# Test of both types → what they become; the first row that fits counts.
_WIDENINGS: Final[
    tuple[tuple[Test, Callable[[pa.DataType, pa.DataType], pa.DataType | None]], ...]
] = (
    (pa.types.is_integer, _widened_integers),
    (_is_number, _widened_numbers),
    (pa.types.is_timestamp, _widened_times),
    (pa.types.is_decimal, _widened_decimals),
    (pa.types.is_list, _widened_lists),
    (pa.types.is_struct, _widened_structs),
)
