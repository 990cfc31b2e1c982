"""Typed samples as Examples: columns to records and back, a feature for every field."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import SampleShapeError
from trainfeed.tfrecord.example import (
    FeatureColumn,
    Fields,
    columns_of,
    packed_floats,
    packed_integers,
)
from trainfeed.tfrecord.parse import BatchParser, parse_row
from trainfeed.tfrecord.wire import (
    ListKind,
    feature_message,
    key_order,
    map_message,
    message_field,
)

# --- Encodes columns as the records of many Examples, without a step per sample

# Wider content becomes a part of its own, which is copied once; it is not put beside its
# neighbours.
_ROW_BYTES: Final = 512

_Sizes: TypeAlias = NDArray[np.int64]
_Mask: TypeAlias = NDArray[np.bool_]


class _Rows(NamedTuple):
    """Bytes of every record.

    Attributes:
        data: Bytes, shape ``(n, width)``, or ``(width,)`` if they are equal in all records.
        kept: True for bytes that count, shape ``(n, width)`` or ``(n, 1)``; None if all count.
    """

    data: NDArray[np.uint8]
    kept: _Mask | None = None


_Part: TypeAlias = _Rows | list[bytes]


def encode_batch(
    columns: Sequence[tuple[FeatureColumn, bytes]],
    values: Mapping[str, NDArray[Any]],
    num_records: int,
) -> list[bytes]:
    """Return the records of Examples.

    Args:
        columns: The fields with their keys, in the order of the record.
        values: Mapping from field to array, in the form of ``ExampleCodec.decode_records``;
            optional fields may be missing.
        num_records: Number of records.

    Raises:
        SampleShapeError: A column has another shape or type.
    """
    parts: list[_Part] = []
    sizes = np.zeros(num_records, np.int64)
    for column, key in columns:
        if column.name in values:
            entry, entry_sizes = _entry(column, key, values[column.name])
            parts += entry
            sizes += entry_sizes
    # A length precedes its content, so sizes are summed first, and the parts are joined in this
    # order.
    return _records([_same(b"\x0a"), _varints(sizes[:, np.newaxis])[0], *parts], num_records)


def _entry(column: FeatureColumn, key: bytes, array: NDArray[Any]) -> tuple[list[_Part], _Sizes]:
    """Return the parts of an entry in the map of features, and its size in each record."""
    present = _presence(column, array)
    array = np.ma.getdata(array)
    content, content_sizes = _content(column, array, present)
    head, sizes = _head(column.kind, message_field(1, key), content_sizes)
    if present is None:
        return [*head, content], sizes
    entry: list[_Part] = [_only(part, present) for part in [*head, content]]
    return entry, np.where(present, sizes, 0)


def _presence(column: FeatureColumn, array: NDArray[Any]) -> _Mask | None:
    """Return True for records that have a field; None if all have it."""
    if isinstance(array, np.ma.MaskedArray):
        # Whole rows are masked, so the first value of a row is enough.
        masked: _Mask = np.ma.getmaskarray(array).reshape(len(array), -1)[:, 0]
        return ~masked
    if column.optional and array.dtype.hasobject:
        return np.array([value is not None for value in array.tolist()], np.bool_)
    return None


def _head(kind: ListKind, key_field: bytes, sizes: _Sizes) -> tuple[list[_Part], _Sizes]:
    """Return the bytes before contents of the given sizes, and the sizes of whole entries.

    Sizes are computed from the inside out: value, list, feature, entry. Each has a tag and a
    length before it.
    """
    if len(sizes) > 1 and np.all(sizes == sizes[0]):
        # Contents of one size have one head: it is computed for one record and repeated.
        parts, entry_sizes = _head(kind, key_field, sizes[:1])
        return [_same(_records(parts, 1)[0])], np.repeat(entry_sizes, len(sizes))
    # An empty list of numbers has no value; empty bytes are a value.
    has_value = np.full(len(sizes), True) if kind is ListKind.BYTES else sizes > 0
    # From the inside out: every length includes the tags and lengths of the messages within.
    value_head, value_sizes = _length_of(sizes)
    list_head, list_sizes = _length_of(np.where(has_value, value_sizes, 0))
    feature_head, feature_sizes = _length_of(list_sizes)
    entry_head, entry_sizes = _length_of(feature_sizes + len(key_field))
    head: list[_Part] = [
        _same(b"\x0a"),
        entry_head,
        _same(key_field + b"\x12"),
        feature_head,
        _same(bytes([kind << 3 | 2])),
        list_head,
        _only(_same(b"\x0a"), has_value),
        _only(value_head, has_value),
    ]
    return head, entry_sizes


def _length_of(sizes: _Sizes) -> tuple[_Rows, _Sizes]:
    """Return sizes as varints, and the sums of a tag, the varint and ``sizes`` bytes."""
    rows, varint_sizes = _varints(sizes[:, np.newaxis])
    return rows, 1 + varint_sizes + sizes


def _content(
    column: FeatureColumn, array: NDArray[Any], present: _Mask | None
) -> tuple[_Part, _Sizes]:
    """Return the values of a column, and their size in each record."""
    if column.is_text:
        pieces = _texts(column, array, present)
        return pieces, _sizes_of(pieces)
    if array.dtype.hasobject:
        return _ragged(column, array, present)
    if array.dtype != column.dtype or not column.accepts(array.shape[1:]):
        raise column.mismatch(f"{array.dtype} {array.shape[1:]}")
    rows, sizes = _numbers(column, array.reshape(len(array), -1))
    if rows.data.shape[1] <= _ROW_BYTES:
        return rows, sizes
    return _cut([rows], len(array)), sizes


def _numbers(column: FeatureColumn, array: NDArray[Any]) -> tuple[_Rows, _Sizes]:
    """Return numbers, shape ``(n, m)``, in their stored form."""
    if column.kind is ListKind.INT64:
        return _varints(array.astype(np.int64, copy=False))
    stored = array.astype(column.dtype if column.in_bytes else "<f4", copy=False)
    data = np.ascontiguousarray(stored).view(np.uint8)
    return _Rows(data), np.full(len(array), data.shape[1], np.int64)


def _ragged(
    column: FeatureColumn, array: NDArray[Any], present: _Mask | None
) -> tuple[list[bytes], _Sizes]:
    """Return the numbers of arrays of different lengths, given as objects of shape ``(n,)``."""
    rows: list[NDArray[Any]] = _present(
        array, present, np.empty((0, *column.item_shape), column.dtype)
    )
    for row in rows:
        if not isinstance(row, np.ndarray):
            raise column.mismatch(f"a {type(row).__name__}")
        if row.dtype != column.dtype or not column.accepts(row.shape):
            raise column.mismatch(f"{row.dtype} {row.shape}")
    if column.kind is not ListKind.INT64:
        dtype = column.dtype if column.in_bytes else "<f4"
        pieces = [row.astype(dtype, copy=False).tobytes() for row in rows]
        return pieces, _sizes_of(pieces)
    joined = np.concatenate([np.empty(0, column.dtype), *[row.reshape(-1) for row in rows]])
    varints, varint_sizes = _varints(joined.astype(np.int64)[:, np.newaxis])
    # All numbers are encoded at once. ``places`` are the byte offsets of the varints, ``ends`` the
    # offsets at which rows end.
    places = np.concatenate([[0], np.cumsum(varint_sizes)])
    ends = places[np.cumsum([row.size for row in rows], dtype=np.int64)]
    return _slices(_compact(varints), ends), np.diff(ends, prepend=0)


def _texts(column: FeatureColumn, array: NDArray[Any], present: _Mask | None) -> list[bytes]:
    kind = str if column.is_str else bytes
    values = _present(array, present, kind())
    for value in values:
        if not isinstance(value, kind):
            raise column.mismatch(f"a {type(value).__name__}")
    try:
        return [value.encode() for value in values] if column.is_str else values
    except UnicodeEncodeError as error:
        raise column.mismatch(str(error)) from error


def _present(array: NDArray[Any], present: _Mask | None, absent: Any) -> list[Any]:
    """Return the objects of an array, with ``absent`` in place of absent ones."""
    values: list[Any] = array.tolist() if array.dtype.hasobject else list(array)
    if present is None:
        return values
    return [value if is_there else absent for value, is_there in zip(values, present, strict=True)]


def _varints(values: NDArray[np.int64]) -> tuple[_Rows, _Sizes]:
    """Return integers, shape ``(n, m)``, as varints, and the size of each row.

    Byte k of a varint holds bits 7k to 7k + 6; its highest bit is set if another byte follows.
    """
    # Two's complement: negative numbers take 10 bytes, as protobuf requires.
    bits = np.ascontiguousarray(values).view(np.uint64)
    # Every varint gets the bytes of the longest one; ``kept`` marks the bytes that it needs.
    width = max(-(-int(bits.max(initial=0)).bit_length() // 7), 1)
    if width == 1:
        return _Rows(bits.astype(np.uint8)), np.full(len(bits), bits.shape[1], np.int64)
    data = np.empty((*bits.shape, width), np.uint8)
    kept = np.empty(data.shape, np.bool_)
    for number in range(width):
        # Byte i holds bits 7i to 7i + 6, lowest first.
        rest = bits >> np.uint64(7 * number) if number else bits
        kept[..., number] = rest != 0
        data[..., number] = rest
    # Zero has one byte as well.
    kept[..., 0] = True
    data &= 0x7F
    # The continuation bit, where another byte follows.
    data[..., :-1] |= kept[..., 1:].view(np.uint8) << 7
    rows = data.reshape(len(bits), -1)
    mask = kept.reshape(rows.shape)
    return _Rows(rows, mask), mask.sum(axis=1)


def _records(parts: Sequence[_Part], num_records: int) -> list[bytes]:
    """Return the records that consist of the given parts."""
    columns: list[list[bytes]] = []
    # Neighbouring rows are joined as arrays; lists of bytes are joined per record at the end.
    for is_rows, group in groupby(parts, lambda part: isinstance(part, _Rows)):
        if is_rows:
            columns.append(_cut([part for part in group if isinstance(part, _Rows)], num_records))
        else:
            columns += [part for part in group if isinstance(part, list)]
    return columns[0] if len(columns) == 1 else list(map(b"".join, zip(*columns, strict=True)))


def _cut(parts: Sequence[_Rows], num_records: int) -> list[bytes]:
    """Return the bytes of neighbouring parts of rows, one object per record."""
    if all(part.kept is None and part.data.ndim == 1 for part in parts):
        # Parts that are equal in all records: one object, repeated.
        return [b"".join(part.data.tobytes() for part in parts)] * num_records
    rows = parts[0] if _is_cut(parts) else _beside(parts, num_records)
    width = rows.data.shape[-1]
    sizes = np.full(num_records, width) if rows.kept is None else rows.kept.sum(axis=1)
    return _slices(_compact(rows), np.cumsum(sizes))


def _is_cut(parts: Sequence[_Rows]) -> bool:
    """Return whether there is one part, whose data and mask have a row per record."""
    data, kept = parts[0]
    return len(parts) == 1 and data.ndim > 1 and (kept is None or kept.shape == data.shape)


def _beside(parts: Sequence[_Rows], num_records: int) -> _Rows:
    """Return parts joined side by side to one part with a row per record."""
    ends = np.cumsum([part.data.shape[-1] for part in parts])
    data = np.empty((num_records, int(ends[-1])), np.uint8)
    kept = None if all(part.kept is None for part in parts) else np.ones(data.shape, np.bool_)
    for part, end in zip(parts, ends.tolist(), strict=True):
        start = end - part.data.shape[-1]
        data[:, start:end] = part.data
        if kept is not None and part.kept is not None:
            kept[:, start:end] = part.kept
    return _Rows(data, kept)


def _compact(rows: _Rows) -> bytes:
    return (rows.data if rows.kept is None else rows.data[rows.kept]).tobytes()


def _slices(data: bytes, ends: _Sizes) -> list[bytes]:
    places = [0, *ends.tolist()]
    return [data[start:end] for start, end in pairwise(places)]


def _same(data: bytes) -> _Rows:
    return _Rows(np.frombuffer(data, np.uint8))


def _only(part: _Part, there: _Mask) -> _Part:
    """Return a part that is empty in all records except those in ``there``."""
    if isinstance(part, list):
        return [piece if keep else b"" for piece, keep in zip(part, there.tolist(), strict=True)]
    if np.all(there):
        return part
    # The mask drops the bytes of other records when rows are compacted.
    where = there[:, np.newaxis]
    return _Rows(part.data, where if part.kept is None else part.kept & where)


def _sizes_of(pieces: list[bytes]) -> _Sizes:
    return np.array(list(map(len, pieces)), np.int64)


# --- Typed samples as Examples: every field is a feature of the same name

# Bytes that are encoded at once: more exceeds the cache of the processor, less costs more calls.
_BLOCK_BYTES: Final = 1 << 20

_Value: TypeAlias = NDArray[Any] | bytes | str | None


class ExampleCodec:
    """Encodes and decodes the samples of one schema as Examples; threads may share the object.

    With the schema nothing is lost in either direction; records do not contain dtypes and shapes.

    Args:
        fields: A ``trainfeed.samples.Schema``, an iterable of its fields, or a mapping from key
            to dtype and shape.

    Raises:
        ConfigError: A dtype or shape is unknown.
    """

    def __init__(self, fields: Fields) -> None:
        self._columns = columns_of(fields)
        self._parser = BatchParser(self._columns)
        self._names = frozenset(column.name for column in self._columns)
        self._sorted = [
            (column, column.name.encode())
            # TensorFlow's deterministic order of keys, so that equal samples give equal bytes.
            for column in sorted(self._columns, key=lambda column: key_order(column.name))
        ]
        row_bytes = sum(map(_work_bytes, self._columns))
        self._block_records = max(_BLOCK_BYTES // max(row_bytes, 1), 1)

    def encode(self, sample: Mapping[str, Any]) -> bytes:
        """Return the record of a sample.

        Args:
            sample: Field → value in the form of ``trainfeed.samples.TypedCodec.decode``: an array
                of the field's dtype and shape, bytes or str. An optional field may be None or
                missing.

        Raises:
            SampleShapeError: A field is missing or unknown, or has another shape or type.
        """
        self._require_known(sample.keys())
        entries = []
        for column, key in self._sorted:
            value = sample.get(column.name)
            if value is not None:
                entries.append((key, feature_message(column.kind, [_value_content(column, value)])))
            elif not column.optional:
                raise column.mismatch("nothing")
        return message_field(1, map_message(entries))

    def encode_columns(self, columns: Mapping[str, NDArray[Any]]) -> list[bytes]:
        """Return the records of many samples; they equal the results of ``encode``.

        Args:
            columns: Field → array of shape ``(n, *shape)``, in the form of ``decode_records`` and
                ``trainfeed.samples.TypedCodec.decode_columns``: object arrays for bytes, str and
                variable shapes; masked, or None, where an optional field is absent. An optional
                field may be missing.

        Raises:
            SampleShapeError: A field is missing or unknown, or has another shape or type, or
                columns differ in length.
        """
        self._require_known(columns.keys())
        for column in self._columns:
            if column.name not in columns and not column.optional:
                raise column.mismatch("nothing")
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise SampleShapeError(f"expected columns of one length, got {sorted(lengths)}")
        records: list[bytes] = []
        num_records = max(lengths, default=0)
        # In blocks, so that intermediate arrays stay in the cache.
        for start in range(0, num_records, self._block_records):
            end = min(start + self._block_records, num_records)
            block = {name: column[start:end] for name, column in columns.items()}
            records += encode_batch(self._sorted, block, end - start)
        return records

    def decode(self, record: bytes | bytearray | memoryview) -> dict[str, _Value]:
        """Return the sample of a record, in memory of its own.

        Returns:
            Field → array of the field's shape, ``()`` for a number; bytes, str, or None for an
            absent optional field.

        Raises:
            FormatError: The record is not an Example, or does not match the fields.
        """
        values = parse_row(bytes(record), self._columns)
        return {
            column.name: _without_row(column, value)
            for column, value in zip(self._columns, values, strict=True)
        }

    def decode_records(
        self, records: Iterable[bytes | bytearray | memoryview]
    ) -> dict[str, NDArray[Any]]:
        """Return the fields of many records; see ``parse_examples``.

        Raises:
            FormatError: A record is not an Example, or does not match the fields.
        """
        return self._parser.parse(records)

    def _require_known(self, names: Set[str]) -> None:
        if unknown := names - self._names:
            raise SampleShapeError(
                f"expected the fields {sorted(self._names)}, got also {sorted(unknown)}"
            )


def _work_bytes(column: FeatureColumn) -> int:
    """Return an estimate of the bytes that encoding a column takes per record."""
    value_bytes = 16 if column.kind is ListKind.INT64 else column.dtype.itemsize
    return value_bytes * math.prod(column.item_shape)


def _value_content(column: FeatureColumn, value: Any) -> bytes:
    if column.is_text:
        return _text_content(column, value)
    array = np.asarray(value)
    if array.dtype != column.dtype or not column.accepts(array.shape):
        raise column.mismatch(f"{array.dtype} {array.shape}")
    if column.in_bytes:
        return array.astype(column.dtype, copy=False).tobytes()
    return packed_floats(array) if column.kind is ListKind.FLOAT else packed_integers(array)


def _text_content(column: FeatureColumn, value: Any) -> bytes:
    if column.is_str and isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise column.mismatch(str(error)) from error
    if column.is_str or not isinstance(value, bytes | bytearray | memoryview):
        raise column.mismatch(f"a {type(value).__name__}")
    return bytes(value)


def _without_row(column: FeatureColumn, values: NDArray[Any] | None) -> _Value:
    if values is None:
        return None
    if column.is_text:
        text: bytes | str = values[0]
        return text
    # Not values[0], which turns the value of a field without shape into a scalar.
    return values.reshape(values.shape[1:])
