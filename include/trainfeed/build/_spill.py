"""Spill files: the samples of one split group, sorted so that a shard is a run of rows.

An Arrow IPC file of ``SPILL_SCHEMA``, sorted by (split, key, source_hash, offset, ordinal). A last
batch of 0 rows carries metadata: for every split and shard the first row, what became of the
group's records, the first row and a digest of every batch, and a digest of the metadata itself. A
file without it is torn. Quarantined rows and the positions of shards are kept in the same way.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import xxhash

from trainfeed.dataset import canonical
from trainfeed.errors import ChecksumError, FormatError, TruncatedError
from trainfeed.storage import Location

__all__ = [
    "QUARANTINE_SCHEMA",
    "SPILL_SCHEMA",
    "ArrowWithTrailer",
    "TrailerWriter",
    "edges_of",
]

_BATCH_ROWS: Final = 16_384
_BATCH_BYTES: Final = 8 << 20
# Written and read once: what zstd saves in bytes, against lz4, costs twice as much in time.
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")
# A file of an earlier layout is as one that is torn.
_TRAILER: Final = "trainfeed-2"
_DIGEST: Final = "trainfeed-xxh3"

SPILL_SCHEMA: Final = pa.schema(
    {
        "split": pa.dictionary(pa.int32(), pa.utf8()),
        "key": pa.uint64(),
        "source": pa.int32(),
        "offset": pa.int64(),
        "ordinal": pa.int32(),
        "record": pa.binary(),
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


def edges_of(rows: Mapping[str, Sequence[int]]) -> list[int]:
    """Return, ascending, where shards begin and end, of the rows per split of a trailer."""
    return sorted({row for firsts in rows.values() for row in firsts})


class TrailerWriter:
    """Writes rows as they come, in batches of about equal size, then a trailer.

    Args:
        file: Where to write. The caller closes it, after ``close``.
        schema: Of the rows.
        batch_bytes: About how large a batch gets; readers hold one batch per file.
        edges: Rows, ascending, where readers begin or end: so do batches, where they can.
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
        self._batch_rows = 0
        # First rows of the batches.
        self._starts: list[int] = []
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._digests: list[str] = []
        self._num_rows = 0
        self._row_bytes = 0
        # An IPC file cannot exchange the dictionary of a column half-way.
        self._dictionaries: dict[int, pa.Array] = {}

    def write(self, table: pa.Table) -> None:
        """Append rows; all tables have equal dictionaries."""
        columns = [_single(column) for column in table.columns]
        whole = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        for number, column in enumerate(columns):
            if isinstance(column, pa.DictionaryArray):
                self._dictionaries.setdefault(number, column.dictionary)
        if not len(whole):
            return
        if not self._batch_rows:
            self._row_bytes = max(1, whole.nbytes // len(whole))
            self._batch_rows = max(1, min(_BATCH_ROWS, self._batch_bytes // self._row_bytes))
        self._num_rows += len(whole)
        self._pending.append(whole)
        self._pending_rows += len(whole)
        if self._pending_rows >= self._batch_rows:
            self._flush(self._batch_rows)

    def close(self, trailer: Mapping[str, Any]) -> None:
        """Write what is left, then the trailer, and Arrow's footer."""
        self._flush(1)
        data = canonical.dumps(
            {
                **trailer,
                "batch_rows": max(1, self._batch_rows),
                "batches": self._digests,
                "num_rows": self._num_rows,
                "row_bytes": self._row_bytes,
                "starts": self._starts,
            }
        )
        metadata = {_TRAILER: data.decode(), _DIGEST: xxhash.xxh3_128_hexdigest(data)}
        self._writer.write_batch(self._empty(), custom_metadata=metadata)
        self._writer.close()

    def _flush(self, least: int) -> None:
        """Write batches for as long as ``least`` rows are pending."""
        if self._pending_rows < least:
            return
        batch = self._pending[0] if len(self._pending) == 1 else _joined(self._pending)
        while len(batch) >= least:
            first = self._num_rows - len(batch)
            piece = batch.slice(0, self._end_of_batch(first) - first)
            self._starts.append(first)
            self._digests.append(_digest(piece))
            self._writer.write_batch(piece)
            batch = batch.slice(len(piece))
        self._pending = [batch] if len(batch) else []
        self._pending_rows = len(batch)

    def _end_of_batch(self, first: int) -> int:
        """Return the row behind the last of a batch: an edge, when there is one within reach."""
        end = min(first + self._batch_rows, self._num_rows)
        edge = bisect_right(self._edges, end)
        if edge and self._edges[edge - 1] > first:
            return self._edges[edge - 1]
        return end

    def _empty(self) -> pa.RecordBatch:
        columns = []
        for number, field in enumerate(self._schema):
            empty = pa.array([], field.type)
            if number in self._dictionaries:
                empty = pa.DictionaryArray.from_arrays(
                    pa.array([], pa.int32()), self._dictionaries[number]
                )
            columns.append(empty)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class ArrowWithTrailer:
    """A file that ``TrailerWriter`` wrote, read by rows; every byte is verified.

    Args:
        location: The file; it is held open until ``close``.

    Raises:
        NotFoundError: There is no such file.
        TruncatedError: The file ends before its trailer.
        ChecksumError: The trailer is damaged.
    """

    def __init__(self, location: Location) -> None:
        self._path = location.uri
        self._kept: tuple[int, pa.RecordBatch] | None = None
        self._file = location.open_read()
        try:
            self._reader = pa.ipc.open_file(self._file)
            # Names that are no text would surface where columns are looked at.
            _ = self._reader.schema.names
            self.trailer: dict[str, Any] = self._read_trailer()
        except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
            self._file.close()
            # With a number it comes from the file system and says nothing about the bytes.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise TruncatedError(f"file has no trailer; {_REMEDY}", path=self._path) from error
        except FormatError:
            self._file.close()
            raise

    def rows(self, start: int, end: int, *, keeps_batch: bool = False) -> pa.Table:
        """Return rows ``[start, end)``; only the batches that hold them are read.

        Args:
            start: First row.
            end: Row behind the last.
            keeps_batch: Whether the rows may share the memory of whole batches, and the last batch
                is kept for the next call. Else they are a copy.
        """
        starts = self.trailer["starts"]
        pieces = []
        behind = bisect_left(starts, end) if end > start else 0
        for index in range(bisect_right(starts, start) - 1, behind):
            batch = self._kept_batch(index) if keeps_batch else self._batch(index)
            first = max(start - starts[index], 0)
            last = min(end - starts[index], len(batch))
            if keeps_batch or last - first == len(batch):
                pieces.append(batch.slice(first, last - first))
            else:
                # A slice would keep its whole batch in memory.
                pieces.append(batch.take(pa.array(np.arange(first, last))))
        return pa.Table.from_batches(pieces, schema=self._reader.schema)

    def read_all(self) -> pa.Table:
        """Return all rows."""
        batches = [self._batch(index) for index in range(len(self.trailer["batches"]))]
        return pa.Table.from_batches(batches, schema=self._reader.schema)

    def iter_tables(self) -> Iterator[pa.Table]:
        """Yield all rows, batch by batch."""
        for index in range(len(self.trailer["batches"])):
            yield pa.Table.from_batches([self._batch(index)])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_trailer(self) -> dict[str, Any]:
        last = self._reader.num_record_batches - 1
        _, metadata = self._reader.get_batch_with_custom_metadata(last)
        data = metadata[_TRAILER.encode()]
        if xxhash.xxh3_128_hexdigest(data).encode() != metadata[_DIGEST.encode()]:
            raise ChecksumError(f"the trailer is damaged; {_REMEDY}", path=self._path)
        trailer: dict[str, Any] = canonical.loads(data, path=self._path)
        return trailer

    def _kept_batch(self, index: int) -> pa.RecordBatch:
        if self._kept is None or self._kept[0] != index:
            self._kept = index, self._batch(index)
        return self._kept[1]

    def _batch(self, index: int) -> pa.RecordBatch:
        try:
            batch = self._reader.get_batch(index)
            batch.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise FormatError(f"batch {index}: {error}; {_REMEDY}", path=self._path) from error
        if _digest(batch) != self.trailer["batches"][index]:
            raise ChecksumError(f"batch {index} is damaged; {_REMEDY}", path=self._path)
        return batch


_REMEDY: Final = (
    "nothing was published; build the interval again (in Airflow: clear the run from preprocess on)"
)


def _single(column: pa.ChunkedArray) -> pa.Array:
    # Arrow copies even a single chunk when it combines chunks.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _digest(batch: pa.RecordBatch) -> str:
    """Return a digest of what the rows say, however the batch lies in memory."""
    # Against damage of disks and wires, not against people: a tenth of the time of SHA-256.
    digest = xxhash.xxh3_128()
    for column in batch.columns:
        if isinstance(column, pa.DictionaryArray):
            digest.update("\0".join(column.dictionary.to_pylist()).encode())
            digest.update(column.indices.to_numpy().data)
        elif pa.types.is_binary(column.type) or pa.types.is_string(column.type):
            _, offsets, data = column.buffers()
            ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
            digest.update(np.diff(ends).data)
            digest.update(memoryview(data or b"")[ends[0] : ends[-1]])
        else:
            digest.update(np.ascontiguousarray(column.to_numpy()).data)
    return digest.hexdigest()
