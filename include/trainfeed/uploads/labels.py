"""The labels of uploads as one table, in which each key stands once and is found by its hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from trainfeed.errors import FormatError, MemoryLimitError
from trainfeed.samples import TypedCodec
from trainfeed.uploads.files import LabelFields

HASH: Final = "hash"
KEY: Final = "key"
_UPLOAD: Final = "upload"
_ROW: Final = "row"
# A batch ends at whichever comes first: few rows may have large labels.
_BATCH_ROWS: Final = 4096
_BATCH_BYTES: Final = 8 << 20
# Most characters of labels in a message.
_SHOWN_CHARS: Final = 200
# Sorting holds the rows, sorted, filtered, and joined at once.
_COPIES: Final = 4


def hash_of_key(key: bytes) -> int:
    """Return the hash by which keys are found: XXH3-64 of the typed record of the key fields."""
    return xxhash.xxh3_64_intdigest(key)


def label_column(number: int) -> str:
    """Return the name of the column with the label of this number; field names are free."""
    return f"label{number}"


@dataclass(frozen=True)
class Labels:
    """The labels of some uploads, each key once.

    Attributes:
        table: ``hash`` uint64 and ``key`` large_binary, sorted by both, then the label columns.
        rows: Number of rows in all uploads.
        repeated: Number of rows that stand again in the same upload, with equal labels.
        superseded: Number of rows whose key stands in a newer upload.
    """

    table: pa.Table
    rows: int
    repeated: int
    superseded: int


def table_of_rows(
    rows: Iterable[Mapping[str, Any]], fields: LabelFields, upload: int, limit_bytes: int
) -> pa.Table:
    """Return the rows of one upload as a table for ``merged``.

    Args:
        rows: Rows in the form of ``TypedCodec.decode``.
        fields: The fields.
        upload: Place of the upload in the order of arrival.
        limit_bytes: The most bytes that sorting these rows may take.

    Raises:
        MemoryLimitError: The rows take more.
    """
    batches, num_bytes = [_batch([], fields, upload, 0)], 0
    for batch in _batches(iter(rows), fields, upload):
        num_bytes += batch.nbytes
        require_room(num_bytes, limit_bytes)
        batches.append(batch)
    return pa.Table.from_batches(batches)


def require_room(num_bytes: int, limit_bytes: int) -> None:
    """Refuse labels that cannot be sorted in memory.

    Raises:
        MemoryLimitError: The labels take more than their share of ``limit_bytes``.
    """
    if num_bytes * _COPIES > limit_bytes:
        raise MemoryLimitError(
            f"expected labels of at most {limit_bytes // _COPIES} bytes in an interval, a fourth of"
            f" resources.memory_bytes = {limit_bytes}, because they are sorted in memory, got"
            f" {num_bytes} or more; nothing was published; raise it in dataset.yaml to at least"
            f" {num_bytes * _COPIES}, or choose a shorter schedule"
        )


def merged(
    tables: list[pa.Table], fields: LabelFields, limit_bytes: int, names: Sequence[str] = ()
) -> Labels:
    """Return the labels of uploads; of rows with equal keys, that of the newest upload counts.

    Args:
        tables: One of ``table_of_rows`` for each upload, at least one.
        fields: The fields.
        limit_bytes: The most bytes that sorting may take.
        names: What a message calls each upload, by its place; nothing if there is only one.

    Raises:
        FormatError: An upload has rows of one key with different labels.
        MemoryLimitError: The rows of all uploads take more.
    """
    require_room(sum(table.nbytes for table in tables), limit_bytes)
    order = [(HASH, "ascending"), (KEY, "ascending"), (_UPLOAD, "descending"), (_ROW, "ascending")]
    rows = pa.concat_tables(tables).sort_by(order).combine_chunks()
    same_key = _equal_to_next(rows, (HASH, KEY))
    same_upload = same_key & _equal_to_next(rows, (_UPLOAD,))
    _require_equal(rows, np.flatnonzero(same_upload), fields, names)
    is_first = np.concatenate([[True], ~same_key])[: len(rows)]
    repeated = int(same_upload.sum())
    return Labels(
        rows.filter(pa.array(is_first)).drop_columns([_UPLOAD, _ROW]).combine_chunks(),
        rows=len(rows),
        repeated=repeated,
        superseded=int(same_key.sum()) - repeated,
    )


def _batches(
    rows: Iterator[Mapping[str, Any]], fields: LabelFields, upload: int
) -> Iterator[pa.RecordBatch]:
    first, taken, num_bytes = 1, list[Mapping[str, Any]](), 0
    for row in rows:
        taken.append(row)
        num_bytes += sum(map(_size, row.values()))
        if len(taken) == _BATCH_ROWS or num_bytes >= _BATCH_BYTES:
            yield _batch(taken, fields, upload, first)
            first, taken, num_bytes = first + len(taken), [], 0
    if taken:
        yield _batch(taken, fields, upload, first)


def _size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    return len(value) if isinstance(value, str | bytes) else 8


def _batch(
    rows: list[Mapping[str, Any]], fields: LabelFields, upload: int, first: int
) -> pa.RecordBatch:
    # Every planner imports this module, and few data sets have uploads.
    from trainfeed.samples.arrow import arrow_schema

    codec = TypedCodec(fields.key)
    keys = [codec.encode({name: row[name] for name in fields.key.names}) for row in rows]
    columns = {
        HASH: pa.array([hash_of_key(key) for key in keys], pa.uint64()),
        KEY: pa.array(keys, pa.large_binary()),
        _UPLOAD: pa.array(np.full(len(rows), upload, np.int32)),
        _ROW: pa.array(np.arange(first, first + len(rows), dtype=np.int64)),
    }
    kinds = arrow_schema(fields.labels)
    for number, field in enumerate(fields.labels):
        values = [_plain(row[field.name]) for row in rows]
        columns[label_column(number)] = pa.array(values, kinds.field(number).type)
    return pa.RecordBatch.from_pydict(columns)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _equal_to_next(rows: pa.Table, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return for every row but the last whether the next one has equal values."""
    equal = np.ones(max(0, len(rows) - 1), dtype=bool)
    for name in names:
        column = rows[name]
        found = pc.equal(column.slice(0, len(equal)), column.slice(1))
        equal &= found.to_numpy().astype(bool)
    return equal


def _require_equal(
    rows: pa.Table, places: NDArray[np.intp], fields: LabelFields, names: Sequence[str]
) -> None:
    """Refuse rows of one upload that have the key of the next row, and other labels."""
    labels = rows.drop_columns([HASH, KEY, _UPLOAD, _ROW]).rename_columns(list(fields.labels.names))
    for start in range(0, len(places), _BATCH_ROWS):
        some = places[start : start + _BATCH_ROWS]
        pairs = zip(labels.take(some).to_pylist(), labels.take(some + 1).to_pylist(), strict=True)
        for place, (one, other) in zip(some.tolist(), pairs, strict=True):
            # By their texts: NaN does not equal itself, and 0.0 equals -0.0.
            if (text := repr(one)) != (other_text := repr(other)):
                first, second = rows[_ROW].slice(place, 2).to_pylist()
                of_upload = f" of {names[rows[_UPLOAD][place].as_py()]}" if names else ""
                remedy = "" if names else "; rows of a file have no order: keep one of them"
                raise FormatError(
                    f"rows {first} and {second}{of_upload} have one key and different labels,"
                    f" {text[:_SHOWN_CHARS]} and {other_text[:_SHOWN_CHARS]}{remedy}"
                )
