"""Spill files: the sorted samples of a task, so that a shard is one range of rows.

A spill file is an Arrow IPC file of ``SPILL_SCHEMA``, sorted by (split, key, source_hash, offset,
ordinal). Its last batch has 0 rows and carries the trailer as metadata:

* for every split, the first row of every shard, and the end;
* the account of the task's records;
* names and types of the columns;
* for every batch its first row and two digests, one of its records and one of all other columns,
  because each of the two can be read alone;
* a digest of the trailer itself.

A file without a trailer is torn. Files of quarantined records and of shard positions have the same
layout.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from trainfeed import canonical_json
from trainfeed.pipeline.plans import PlannedShard
from trainfeed.pipeline.sorting._sample_order import end_within

__all__ = [
    "DIGEST",
    "QUARANTINE_SCHEMA",
    "RECORD",
    "SPILL_SCHEMA",
    "TRAILER",
    "TrailerWriter",
    "columns_of",
    "digest_of",
    "edges_of",
    "first_shards",
]

_BATCH_ROWS: Final = 16_384
_BATCH_BYTES: Final = 8 << 20
# A spill file is written and read once. Compared with lz4, zstd costs twice the time that its
# smaller files save.
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")
# The number changes with the layout: a file of another layout counts as torn.
TRAILER: Final = "trainfeed-3"
DIGEST: Final = "trainfeed-xxh3"
RECORD: Final = "record"
# Bytes of the end of a value in a column of bytes or text.
_END_BYTES: Final = 4

SPILL_SCHEMA: Final = pa.schema(
    {
        "key": pa.uint64(),
        "source": pa.int32(),
        "offset": pa.int64(),
        "ordinal": pa.int32(),
        # Size of the record in bytes: known before the record is read.
        "size": pa.int32(),
        RECORD: pa.binary(),
    }
)
QUARANTINE_SCHEMA: Final = pa.schema(
    {
        "source": pa.int32(),
        "offset": pa.int64(),
        "reason": pa.utf8(),
        "message": pa.utf8(),
        "raw": pa.binary(),
    }
)


def first_shards(unit: Sequence[PlannedShard]) -> list[tuple[PlannedShard, int]]:
    """Return the first shard of every split in a task of ``convert``, and their number."""
    splits = (list(shards) for _, shards in groupby(unit, key=lambda shard: shard.split))
    return [(shards[0], len(shards)) for shards in splits]


def edges_of(
    rows: Mapping[str, Sequence[int]], units: Sequence[Sequence[PlannedShard]]
) -> list[int]:
    """Return the rows at which tasks of ``convert`` begin to read, ascending.

    Args:
        rows: Split → the first row of every shard, and the end.
        units: The shards of every task.
    """
    firsts = [first for unit in units for first, _ in first_shards(unit)]
    return sorted({rows[shard.split][shard.index] for shard in firsts})


class TrailerWriter:
    """Writes rows in batches of bounded size, then a trailer.

    The ends of batches depend on the rows alone, not on how they are divided among calls.

    Args:
        file: The file to write. The caller closes it, after ``close``.
        schema: Columns of the rows: numbers, bytes and text.
        batch_bytes: Size limit of a batch of several rows; readers hold one batch per file.
        edges: Rows at which a batch must begin, ascending.
    """

    def __init__(
        self,
        file: BinaryIO,
        schema: pa.Schema,
        *,
        batch_bytes: int = _BATCH_BYTES,
        edges: Sequence[int] = (),
    ) -> None:
        self._writer = pa.ipc.new_file(file, schema, options=_OPTIONS)
        self._schema = schema
        self._batch_bytes = batch_bytes
        self._edges = edges
        # First rows of the batches.
        self._starts: list[int] = []
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._digests: tuple[list[str], list[str]] = ([], [])
        self._num_rows = 0
        self._num_bytes = 0
        self._held_bytes = 0

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        for batch in table.cast(self._schema).to_batches():
            # In pieces: joining with the rows that wait copies only a piece, not the whole table.
            step = max(1, len(batch) * self._batch_bytes // max(1, batch.nbytes))
            for start in range(0, len(batch), step):
                self._append(batch.slice(start, step))

    def close(self, trailer: Mapping[str, object]) -> None:
        """Write the rows that wait, the trailer, and Arrow's footer."""
        self._flush(last=True)
        heads, bodies = self._digests
        data = canonical_json.dumps(
            {
                **trailer,
                "bodies": "".join(bodies),
                "columns": columns_of(self._schema),
                "heads": "".join(heads),
                "held_bytes": self._held_bytes,
                "num_rows": self._num_rows,
                "row_bytes": self._num_bytes // max(1, self._num_rows),
                "starts": self._starts,
            }
        )
        metadata = {TRAILER: data.decode(), DIGEST: xxhash.xxh3_128_hexdigest(data)}
        empty = pa.RecordBatch.from_pylist([], schema=self._schema)
        self._writer.write_batch(empty, custom_metadata=metadata)
        self._writer.close()

    def _append(self, batch: pa.RecordBatch) -> None:
        self._num_rows += len(batch)
        self._pending.append(batch)
        self._pending_rows += len(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_rows > _BATCH_ROWS or self._pending_bytes > self._batch_bytes:
            self._flush(last=False)

    def _flush(self, *, last: bool) -> None:
        """Write batches; unless ``last``, only those that cannot take a further row."""
        if not self._pending:
            return
        batch = self._pending[0] if len(self._pending) == 1 else _joined(self._pending)
        ends = _row_ends(batch)
        # ``first`` is the number in the file of the first row that waits; ``start`` counts from it.
        first, start = self._num_rows - len(batch), 0
        while start < len(batch):
            end = self._end_of_batch(ends, first, start)
            if end == len(batch) and not last:
                break
            self._write_batch(batch.slice(start, end - start), first + start)
            start = end
        self._wait_for_more(batch.slice(start))

    def _wait_for_more(self, rest: pa.RecordBatch) -> None:
        # A copy, because a slice would keep the memory of the whole batch.
        self._pending = [rest.take(pa.array(np.arange(len(rest))))] if len(rest) else []
        self._pending_rows, self._pending_bytes = len(rest), rest.nbytes

    def _write_batch(self, piece: pa.RecordBatch, first: int) -> None:
        self._starts.append(first)
        self._num_bytes += piece.nbytes
        if len(piece) > 1:
            self._held_bytes = max(self._held_bytes, piece.nbytes)
        names = self._schema.names
        for digests, is_record in zip(self._digests, (False, True), strict=True):
            columns = [piece.column(name) for name in names if (name == RECORD) is is_record]
            digests.append(digest_of(columns))
        self._writer.write_batch(piece)

    def _end_of_batch(self, ends: NDArray[np.int64], first: int, start: int) -> int:
        """Return the end of the batch from ``start``; both count from the first row that waits."""
        # A batch ends at the nearest of three limits: bytes, rows, and the next edge.
        end = min(end_within(ends, start, self._batch_bytes), start + _BATCH_ROWS)
        edge = bisect_right(self._edges, first + start)
        return min(end, self._edges[edge] - first) if edge < len(self._edges) else end


def columns_of(schema: pa.Schema) -> list[list[str]]:
    """Return names and types of the columns, as the trailer has them."""
    return [[field.name, str(field.type)] for field in schema]


def digest_of(columns: Sequence[pa.Array]) -> str:
    """Return a digest of the values of columns, independent of their layout in memory, in hex."""
    # XXH3 finds accidental damage, not forgery, in a tenth of the time of SHA-256.
    digest = xxhash.xxh3_128()
    for column in columns:
        if _is_variable(column.type):
            # Lengths and bytes of the values only: a slice shares buffers with other rows, and its
            # ends do not begin at 0.
            ends = _value_ends(column)
            digest.update(np.diff(ends).data)
            digest.update(memoryview(column.buffers()[2] or b"")[ends[0] : ends[-1]])
        else:
            digest.update(np.ascontiguousarray(column.to_numpy()).data)
    return digest.hexdigest()


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _row_ends(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Return cumulative bytes: of all rows up to and including each row, shape (n,)."""
    sizes = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        if _is_variable(column.type):
            sizes += np.diff(_value_ends(column)) + _END_BYTES
        else:
            sizes += column.type.bit_width // 8
    return np.cumsum(sizes)


def _is_variable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_string(kind))


def _value_ends(column: pa.Array) -> NDArray[np.int32]:
    """Return the start of the first value and the ends of all, shape (n + 1,)."""
    ends = np.frombuffer(column.buffers()[1], np.int32)
    return ends[column.offset : column.offset + len(column) + 1]
