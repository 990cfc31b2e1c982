"""Steps that read values of Avro: each reads one value from every datum of a batch.

A tree of steps reads whole datums, in the order in which their writer wrote the values;
``avro_resolution`` makes it from the two schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.value_formats.datums import (
    VARINT,
    Cursor,
    Positions,
    binary_column,
    by_owner,
    item_cursor,
    refuse_owners,
    spread,
    text_column,
)
from trainfeed.value_formats.framed import SchemaError

# How deep a record may hold itself; deeper ones would exhaust the stack.
_MOST_DEPTH: Final = 64
_INT: Final = np.iinfo(np.int32)


class Step(Protocol):
    """Reads one value of the writer's schema from every datum of a cursor."""

    def read(self, cursor: Cursor) -> pa.Array:
        """Return a column with a value for each datum; that of a refused datum means nothing."""

    def skip(self, cursor: Cursor) -> None:
        """Move behind the values, checked as ``read`` does."""


# --- Steps of single values


class NullStep:
    """A null, as a null of the reader's type."""

    def __init__(self, arrow: pa.DataType) -> None:
        self._arrow = arrow

    def read(self, cursor: Cursor) -> pa.Array:
        return pa.nulls(len(cursor), self._arrow)

    def skip(self, cursor: Cursor) -> None:
        pass


class BooleanStep:
    """A boolean."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, cursor: Cursor) -> pa.Array:
        values = cursor.bytes_at()
        self._move(cursor, values)
        return pa.array(values != 0)

    def skip(self, cursor: Cursor) -> None:
        self._move(cursor, cursor.bytes_at())

    def _move(self, cursor: Cursor, values: Any) -> None:
        cursor.skip(1, self._path)
        cursor.refuse(values > 1, f"{self._path}: expected a boolean of 0 or 1")


class WholeStep:
    """An int or a long, as itself, as a time, or as a floating-point number."""

    def __init__(self, path: str, *, is_int: bool, arrow: pa.DataType) -> None:
        self._path = path
        self._is_int = is_int
        self._arrow = arrow
        self._dtype = np.dtype(f"i{arrow.bit_width // 8}")
        if pa.types.is_floating(arrow):
            self._dtype = np.dtype(arrow.to_pandas_dtype())

    def read(self, cursor: Cursor) -> pa.Array:
        values = self._values(cursor).astype(self._dtype, copy=False)
        return pa.Array.from_buffers(self._arrow, len(values), [None, pa.py_buffer(values)])

    def skip(self, cursor: Cursor) -> None:
        self._values(cursor)

    def _values(self, cursor: Cursor) -> Positions:
        values = cursor.varints(self._path)
        if self._is_int and len(values) and (values.max() > _INT.max or values.min() < _INT.min):
            beyond = (values > _INT.max) | (values < _INT.min)
            cursor.refuse(beyond, f"{self._path}: expected an int of 32 bits")
        return values


class FloatStep:
    """A float or a double."""

    def __init__(self, path: str, dtype: str, arrow: pa.DataType) -> None:
        self._path = path
        self._dtype = dtype
        self.size = np.dtype(dtype).itemsize
        self._arrow = arrow

    def read(self, cursor: Cursor) -> pa.Array:
        words = cursor.datums.words(self._dtype)
        values = words[cursor.pos].astype(self._arrow.to_pandas_dtype(), copy=False)
        self.skip(cursor)
        return pa.Array.from_buffers(self._arrow, len(values), [None, pa.py_buffer(values)])

    def skip(self, cursor: Cursor) -> None:
        cursor.skip(self.size, self._path)


class BytesStep:
    """Bytes or a string, as either of them."""

    def __init__(self, path: str, *, as_text: bool, is_text: bool) -> None:
        self._path = path
        self._as_text = as_text
        self._is_text = is_text

    def read(self, cursor: Cursor) -> pa.Array:
        start, end = cursor.slices(self._path)
        if self._as_text:
            return text_column(cursor, start, end, self._path)
        if self._is_text:
            return text_column(cursor, start, end, self._path).cast(pa.binary())
        return binary_column(cursor, start, end)

    def skip(self, cursor: Cursor) -> None:
        start, end = cursor.slices(self._path)
        if self._is_text:
            text_column(cursor, start, end, self._path)


class FixedStep:
    """Bytes of a fixed number."""

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self.size = size

    def read(self, cursor: Cursor) -> pa.Array:
        data, start = cursor.datums.data, cursor.pos
        cursor.skip(self.size, self._path)
        # What is read of a refused datum means nothing, and stays within the buffer.
        places = np.minimum(start[:, None] + np.arange(self.size), len(data) - 1)
        values = pa.py_buffer(data[places])
        return pa.Array.from_buffers(pa.binary(self.size), len(start), [None, values])

    def skip(self, cursor: Cursor) -> None:
        cursor.skip(self.size, self._path)


class DecimalStep:
    """A decimal in bytes or in a fixed, big-endian."""

    def __init__(self, path: str, inner: Step, arrow: pa.DataType) -> None:
        self._path = path
        self._inner = inner
        self._arrow = arrow
        self._limit = 10**arrow.precision

    def read(self, cursor: Cursor) -> pa.Array:
        column = self._inner.read(cursor)
        numbers = [
            int.from_bytes(each, "big", signed=True) if each else None
            for each in column.to_pylist()
        ]
        is_wrong = [each is None or not -self._limit < each < self._limit for each in numbers]
        wrong = np.array(is_wrong, np.bool_)
        digits = self._arrow.precision
        cursor.refuse(wrong, f"{self._path}: expected a decimal of at most {digits} digits")
        values = [
            None if number is None or bad else scaled(number, self._arrow.scale)
            for number, bad in zip(numbers, is_wrong, strict=True)
        ]
        return pa.array(values, self._arrow)

    def skip(self, cursor: Cursor) -> None:
        self.read(cursor)


def scaled(number: int, scale: int) -> Decimal:
    """Return the decimal of an unscaled number."""
    # Not ``scaleb``, which rounds to the digits of the context.
    sign, digits, _ = Decimal(number).as_tuple()
    return Decimal((sign, digits, -scale))


class EnumStep:
    """An enum: symbols of the writer → symbols of the reader, None for one that it has not."""

    def __init__(self, path: str, symbols: Sequence[str | None]) -> None:
        self._path = path
        self._symbols = pa.array(symbols, pa.string())
        self._missing = np.array([each is None for each in symbols])

    def read(self, cursor: Cursor) -> pa.Array:
        numbers = self._numbers(cursor)
        cursor.refuse(
            self._missing[numbers], f"{self._path}: a symbol that the reader's schema does not have"
        )
        return self._symbols.take(pa.array(numbers))

    def skip(self, cursor: Cursor) -> None:
        self._numbers(cursor)

    def _numbers(self, cursor: Cursor) -> Positions:
        numbers = cursor.varints(self._path)
        wrong = (numbers < 0) | (numbers >= len(self._symbols))
        cursor.refuse(wrong, f"{self._path}: expected one of {len(self._symbols)} symbols")
        return np.where(wrong, 0, numbers)


# --- Steps of values that hold values


class UnionStep:
    """A union of the writer: for each branch its step, or None if the reader does not have it."""

    def __init__(
        self, path: str, branches: Sequence[Step], known: Sequence[bool], arrow: pa.DataType
    ) -> None:
        self._path = path
        self._branches = branches
        self._known = known
        self._arrow = arrow

    def read(self, cursor: Cursor) -> pa.Array:
        found: list[tuple[Positions | None, pa.Array]] = []
        for number, rows, part in self._parts(cursor):
            branch = self._branches[number]
            if not self._known[number]:
                part.refuse(
                    np.ones(len(part), np.bool_),
                    f"{self._path}: a branch of a union that the reader's schema does not have",
                )
            elif isinstance(branch, NullStep):
                pass
            else:
                found.append((rows, branch.read(part)))
            if rows is not None:
                cursor.put(rows, part)
        return spread(found, len(cursor), self._arrow)

    def skip(self, cursor: Cursor) -> None:
        for number, rows, part in self._parts(cursor):
            self._branches[number].skip(part)
            if rows is not None:
                cursor.put(rows, part)

    def _parts(self, cursor: Cursor) -> list[tuple[int, Positions | None, Cursor]]:
        """Return the datums of each branch that occurs: all of them, or a cursor of some."""
        numbers = cursor.varints(self._path)
        count = len(self._branches)
        wrong = (numbers < 0) | (numbers >= count)
        cursor.refuse(wrong, f"{self._path}: expected one of {count} branches of a union")
        good = cursor.why == 0
        parts: list[tuple[int, Positions | None, Cursor]] = []
        for number in range(count):
            mask = numbers == number
            if mask.all():
                return [(number, None, cursor)]
            rows = np.flatnonzero(mask & good)
            if len(rows):
                parts.append((number, rows, cursor.at(rows)))
        return parts


class _Items:
    """The blocks of an array or a map.

    Args:
        path: For messages.
        item: Reads one item, or key and value.
        size: Bytes of an item, or ``VARINT``: then the items of a block are read at once. None for
            items of other sizes, which are read one after another.
    """

    def __init__(self, path: str, item: Callable[[Cursor], pa.Array], size: int | None) -> None:
        self._path = path
        self._item = item
        self._size = size

    def read(self, cursor: Cursor) -> tuple[pa.Array | None, NDArray[np.int32]]:
        """Return the items of all datums, datum by datum, and where those of each begin and end."""
        pieces: list[pa.Array] = []
        owners: list[Positions] = []
        rows = np.flatnonzero(cursor.why == 0)
        part = cursor.at(rows)
        left = np.zeros(len(rows), np.int64)
        until = np.full(len(rows), -1, np.int64)
        while len(rows):
            fresh = np.flatnonzero(left == 0)
            if len(fresh):
                self._begin(part, fresh, left, until)
            over = (left == 0) | (part.why != 0)
            if over.any():
                cursor.put(rows[over], part.at(np.flatnonzero(over)))
                stay = np.flatnonzero(~over)
                rows, part, left, until = rows[stay], part.at(stay), left[stay], until[stay]
                if not len(rows):
                    break
            if self._size is None:
                pieces.append(self._item(part))
                owners.append(rows)
                left = left - 1
            else:
                items = item_cursor(part, left, self._size, self._path)
                left = np.where(part.why == 0, left, 0)
                pieces.append(self._item(items))
                owners.append(np.repeat(rows, left))
                refuse_owners(part, left, items)
                left = np.zeros_like(left)
            wrong = (left == 0) & (until >= 0) & (until != part.pos)
            part.refuse(wrong, f"{self._path}: a block of items has another size than it says")
        return by_owner(pieces, owners, len(cursor))

    def _begin(self, part: Cursor, fresh: Positions, left: Positions, until: Positions) -> None:
        """Read the head of the next block of the datums ``fresh``."""
        heads = part.at(fresh)
        counts = heads.varints(self._path)
        ends = np.full(len(fresh), -1, np.int64)
        sized = np.flatnonzero((counts < 0) & (heads.why == 0))
        if len(sized):
            blocks = heads.at(sized)
            sizes = blocks.varints(self._path)
            beyond = (sizes < 0) | (sizes > blocks.end - blocks.pos)
            blocks.refuse(beyond, f"{self._path}: a block of items is beyond the bytes")
            ends[sized] = blocks.pos + np.where(blocks.why == 0, sizes, 0)
            heads.put(sized, blocks)
            counts = np.abs(counts)
        # An item has at least one byte; the smallest number has no positive one.
        many = (counts < 0) | (counts > heads.end - heads.pos)
        heads.refuse(many, f"{self._path}: more items than bytes")
        part.put(fresh, heads)
        left[fresh] = np.where(heads.why == 0, counts, 0)
        until[fresh] = ends


def _size_of(step: Step) -> int | None:
    """Return the bytes that each value of a step takes, ``VARINT``, or None."""
    match step:
        case BooleanStep():
            return 1
        case FloatStep() | FixedStep():
            return step.size
        case WholeStep() | EnumStep():
            return VARINT
        case UnreadStep():
            return _size_of(step.inner)
        case _:
            return None


class ArrayStep:
    """An array."""

    def __init__(self, path: str, item: Step, arrow: pa.DataType) -> None:
        self._items = _Items(path, item.read, _size_of(item))
        self._arrow = arrow

    def read(self, cursor: Cursor) -> pa.Array:
        values, ends = self._items.read(cursor)
        if values is None:
            values = pa.nulls(0, self._arrow.value_type)
        return pa.ListArray.from_arrays(pa.array(ends), values, type=self._arrow)

    def skip(self, cursor: Cursor) -> None:
        self._items.read(cursor)


class MapStep:
    """A map."""

    def __init__(self, path: str, value: Step, arrow: pa.DataType) -> None:
        self._key = BytesStep(f"{path}{{}}", as_text=True, is_text=True)
        self._value = value
        self._items = _Items(path, self._pair, None)
        self._arrow = arrow

    def _pair(self, cursor: Cursor) -> pa.Array:
        key = self._key.read(cursor)
        value = self._value.read(cursor)
        # A refused datum has a null, which no key may be; its map is not looked at.
        key = pc.fill_null(key, "")
        return pa.StructArray.from_arrays([key, value], ["key", "value"])

    def read(self, cursor: Cursor) -> pa.Array:
        pairs, ends = self._items.read(cursor)
        if pairs is None:
            pairs = pa.StructArray.from_arrays(
                [pa.nulls(0, pa.string()), pa.nulls(0, self._arrow.item_type)], ["key", "value"]
            )
        keys, values = pairs.flatten()
        return pa.MapArray.from_arrays(pa.array(ends), keys, values, type=self._arrow)

    def skip(self, cursor: Cursor) -> None:
        self._items.read(cursor)


class RecordStep:
    """A record: its fields in the writer's order, each for a field of the reader or skipped.

    Args:
        arrow: Type of the column; None where the record is only skipped.
    """

    def __init__(self, arrow: pa.DataType | None) -> None:
        self._arrow = arrow
        self.steps: list[tuple[Step, int | None]] = []
        self.defaults: list[tuple[int, pa.Scalar]] = []

    def read(self, cursor: Cursor) -> pa.Array:
        if self._arrow is None:
            raise SchemaError("a record that is skipped was read")
        columns: list[Any] = [None] * self._arrow.num_fields
        for step, number in self.steps:
            if number is None:
                step.skip(cursor)
            else:
                columns[number] = step.read(cursor)
        for number, scalar in self.defaults:
            columns[number] = _repeated(scalar, len(cursor))
        if not columns:
            return pa.array([{}] * len(cursor), self._arrow)
        return pa.StructArray.from_arrays(columns, fields=list(self._arrow))

    def skip(self, cursor: Cursor) -> None:
        for step, _ in self.steps:
            step.skip(cursor)


def _repeated(scalar: pa.Scalar, count: int) -> pa.Array:
    return pa.array([scalar.as_py()], scalar.type).take(pa.array(np.zeros(count, np.int64)))


class SkippedStep:
    """A named type that may hold itself; read only to be skipped, as deep as records may nest."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.step: Step | None = None

    def read(self, cursor: Cursor) -> pa.Array:
        self.skip(cursor)
        return pa.nulls(len(cursor))

    def skip(self, cursor: Cursor) -> None:
        if self.step is None or not len(cursor):
            return
        if cursor.datums.depth >= _MOST_DEPTH:
            everyone = np.ones(len(cursor), np.bool_)
            cursor.refuse(everyone, f"{self._path}: records nested deeper than {_MOST_DEPTH}")
            return
        cursor.datums.depth += 1
        try:
            self.step.skip(cursor)
        finally:
            cursor.datums.depth -= 1


class UnreadStep:
    """Reads a value that is skipped as a null."""

    def __init__(self, inner: Step) -> None:
        self.inner = inner

    def read(self, cursor: Cursor) -> pa.Array:
        self.inner.skip(cursor)
        return pa.nulls(len(cursor))

    def skip(self, cursor: Cursor) -> None:
        self.inner.skip(cursor)
