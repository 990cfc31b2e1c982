"""Encodes columns as the records of many Examples, without a step per sample.

All records consist of the same sequence of parts. A part has bytes for every record: either an
array with one row per record and a mask of the bytes that count, or a list with one object per
record. Neighbouring parts of the first kind are put side by side and cut into records in one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.tfrecord.examples._feature_columns import FeatureColumn
from trainfeed.tfrecord.examples._features import ListKind, message_field

__all__ = ["encode_batch"]

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
        parts, entry_sizes = _head(kind, key_field, sizes[:1])
        return [_same(_records(parts, 1)[0])], np.repeat(entry_sizes, len(sizes))
    # An empty list of numbers has no value; empty bytes are a value.
    has_value = np.full(len(sizes), True) if kind is ListKind.BYTES else sizes > 0
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
    bits = np.ascontiguousarray(values).view(np.uint64)
    # Every varint gets the bytes of the longest one; ``kept`` marks the bytes that it needs.
    width = max(-(-int(bits.max(initial=0)).bit_length() // 7), 1)
    if width == 1:
        return _Rows(bits.astype(np.uint8)), np.full(len(bits), bits.shape[1], np.int64)
    data = np.empty((*bits.shape, width), np.uint8)
    kept = np.empty(data.shape, np.bool_)
    for number in range(width):
        rest = bits >> np.uint64(7 * number) if number else bits
        kept[..., number] = rest != 0
        data[..., number] = rest
    kept[..., 0] = True
    data &= 0x7F
    data[..., :-1] |= kept[..., 1:].view(np.uint8) << 7
    rows = data.reshape(len(bits), -1)
    mask = kept.reshape(rows.shape)
    return _Rows(rows, mask), mask.sum(axis=1)


def _records(parts: Sequence[_Part], num_records: int) -> list[bytes]:
    """Return the records that consist of the given parts."""
    columns: list[list[bytes]] = []
    for is_rows, group in groupby(parts, lambda part: isinstance(part, _Rows)):
        if is_rows:
            columns.append(_cut([part for part in group if isinstance(part, _Rows)], num_records))
        else:
            columns += [part for part in group if isinstance(part, list)]
    return columns[0] if len(columns) == 1 else list(map(b"".join, zip(*columns, strict=True)))


def _cut(parts: Sequence[_Rows], num_records: int) -> list[bytes]:
    """Return the bytes of neighbouring parts of rows, one object per record."""
    if all(part.kept is None and part.data.ndim == 1 for part in parts):
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
    """Return a part that is empty in all other records than those in ``there``."""
    if isinstance(part, list):
        return [piece if keep else b"" for piece, keep in zip(part, there.tolist(), strict=True)]
    if np.all(there):
        return part
    where = there[:, np.newaxis]
    return _Rows(part.data, where if part.kept is None else part.kept & where)


def _sizes_of(pieces: list[bytes]) -> _Sizes:
    return np.array(list(map(len, pieces)), np.int64)
