"""Spill files: samples of a task in their order, every byte verified before it is used."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, BinaryIO, Final, Self

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from trainfeed.core import canonical_json
from trainfeed.errors import ChecksumError, FormatError, TruncatedError
from trainfeed.files.stores import Location
from trainfeed.pipeline.plans import PlannedShard
from trainfeed.samples import Schema
from trainfeed.versions.order import Uint64s, key_order, source_hash

# --- The order of samples, and the columns of records in that order

# Records above this mean size are not copied but referred to one by one: that is faster, and there
# may be no room for two copies.
_LARGE_BYTES: Final = 64 << 10


def hashes_of(sources: Sequence[str]) -> Uint64s:
    """Return the hash of every source, shape (n,)."""
    return np.array([source_hash(source) for source in sources], dtype=np.uint64)


def sample_order(
    keys: Uint64s,
    hashes: Uint64s,
    sources: NDArray[np.int32],
    offsets: NDArray[np.int64],
    ordinals: NDArray[np.int32],
) -> NDArray[np.intp]:
    """Return the permutation that sorts samples by (key, source_hash, offset, ordinal).

    Args:
        keys: Order keys, shape (n,).
        hashes: Hash of every source, by source index.
        sources: Source index per sample.
        offsets: Offset per sample.
        ordinals: Ordinal per sample.
    """
    order = np.argsort(keys)
    ranked = keys[order]
    if (ranked[1:] == ranked[:-1]).any():
        # Equal keys need the full order. They hardly ever occur with 64-bit hashes, and this look
        # costs a fifth of a sort by all four columns.
        return key_order(keys, hashes[sources], offsets, ordinals)
    return order


def end_within(ends: NDArray[np.int64], start: int, num_bytes: int) -> int:
    """Return the end (exclusive) of the rows from ``start`` on that fit into ``num_bytes``.

    Args:
        ends: Cumulative bytes: of all rows up to and including each row, shape (n,).
        start: The first row.
        num_bytes: Limit for the rows together; a single larger row is still taken.
    """
    before = int(ends[start - 1]) if start else 0
    return max(start + 1, int(np.searchsorted(ends, before + num_bytes, side="right")))


class RecordColumn:
    """Moves records in bulk; faster if all have the same size.

    Args:
        size_bytes: The size of every record, or None if sizes differ.
    """

    def __init__(self, size_bytes: int | None) -> None:
        self._size = size_bytes

    @classmethod
    def of(cls, schema: Schema) -> Self:
        """Return the column for the records of a schema."""
        return cls(schema.record_dtype.itemsize if schema.is_fixed else None)

    def gather(
        self, parts: Sequence[pa.Array], order: NDArray[np.intp]
    ) -> pa.Array | pa.ChunkedArray:
        """Return the records of several binary arrays in ``order``, as one column.

        Args:
            parts: Binary or large binary arrays with n records together.
            order: Permutation of the n rows of the joined parts.

        Returns:
            A new array; for large records a chunked array that shares the memory of ``parts``.
        """
        num_bytes = sum(part.nbytes for part in parts)
        if num_bytes > _LARGE_BYTES * len(order):
            rows = [p.slice(row, 1) for p in map(_as_binary, parts) for row in range(len(p))]
            return pa.chunked_array([rows[row] for row in order.tolist()], pa.binary())
        if self._size is None:
            whole = pa.concat_arrays([pa.array([], pa.binary()), *map(_as_binary, parts)])
            return whole.take(pa.array(order))
        empty = np.empty(0, dtype=f"V{self._size}")
        # ``take`` needs half the time of an index.
        return self._wrap(np.concatenate([empty, *map(self.rows, parts)]).take(order))

    def rows(self, records: pa.Array) -> NDArray[np.void]:
        """Return records of one size as a void array of shape (n,) that shares their memory."""
        size = self._size or 0
        # A binary array in memory: n + 1 ends (32 or 64 bits), then the bytes of all records. The
        # ends of a slice begin at its offset, and its first byte is at the first of these ends.
        _, ends, data = records.buffers()
        width = np.int64 if pa.types.is_large_binary(records.type) else np.int32
        start = int(np.frombuffer(ends, width)[records.offset]) if len(records) else 0
        view = np.frombuffer(data if len(records) else b"", np.uint8)
        return view[start : start + len(records) * size].view(f"V{size}")

    def joined(self, records: pa.ChunkedArray) -> NDArray[np.void]:
        """Return records of one size as a void array; a single chunk is not copied."""
        parts = [self.rows(chunk) for chunk in records.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def size_bytes(self) -> int:
        """The size of every record, 0 if sizes differ."""
        return self._size or 0

    def _wrap(self, rows: NDArray[np.void]) -> pa.Array:
        """Return a void array as a binary array that shares its memory."""
        ends = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(rows.itemsize)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(rows)]
        return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def _as_binary(records: pa.Array) -> pa.Array:
    return records.cast(pa.binary())


# --- Spill files: the sorted samples of a task, so that a shard is one range of rows

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


# --- Reads spill files and files of the same layout; every byte is verified before it is used

_REMEDY: Final = (
    "nothing was published; build the interval again (in Airflow: clear the run from preprocess on)"
)
# Hex digits of a digest.
_DIGEST_CHARS: Final = 32


class ArrowWithTrailer:
    """A file that ``TrailerWriter`` wrote, read by batches.

    Args:
        location: The file; it stays open until ``close``.
        schema: Its columns; None for any.

    Attributes:
        trailer: The mapping given to ``close`` of the writer, with ``starts``, ``num_rows``,
            ``row_bytes`` (mean size of a row) and ``held_bytes`` (size of the largest batch of
            more than one row).

    Raises:
        NotFoundError: There is no such file.
        TruncatedError: The file ends before its trailer.
        ChecksumError: The trailer, or the name or type of a column, is damaged.
        FormatError: It is a whole file with other columns.
    """

    def __init__(self, location: Location, schema: pa.Schema | None = None) -> None:
        self._location = location
        self._expected = schema
        self._file: BinaryIO | None = None
        self._readers: dict[bool | None, Any] = {}
        try:
            self.trailer: dict[str, Any] = self._read_trailer()
        except FormatError:
            self.close()
            raise
        except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
            self.close()
            # An error with errno comes from the file system, and does not mean damaged bytes.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise TruncatedError(f"file has no trailer; {_REMEDY}", path=location.uri) from error

    @property
    def has_samples(self) -> bool:
        """Whether this spill file has samples, and not only the account of a task."""
        return "rows" in self.trailer

    def require_samples(self) -> None:
        """Refuse a spill file that has the account of a task alone.

        Raises:
            FormatError: The samples of the task went through the shuffle of another engine.
        """
        if not self.has_samples:
            raise FormatError(
                "expected the samples of a task, got its account alone: the engine spark keeps"
                f" samples in its shuffle; {_REMEDY}",
                path=self._location.uri,
            )

    def batches(self, start: int, end: int) -> range:
        """Return the numbers of the batches with the rows ``[start, end)``."""
        starts = self.trailer["starts"]
        if end <= start:
            return range(0)
        # From the last batch that begins at or before ``start`` to the last that begins before
        # ``end``.
        return range(bisect_right(starts, start) - 1, bisect_left(starts, end))

    def head(self, index: int) -> pa.RecordBatch:
        """Return a batch without the column of records, which is not read."""
        return self._read(index, is_record=False)

    def records(self, index: int) -> pa.Array:
        """Return the records of a batch."""
        return self._read(index, is_record=True).column(0)

    def read_all(self) -> pa.Table:
        """Return all rows."""
        batches = [self._whole(index) for index in range(len(self.trailer["starts"]))]
        return pa.Table.from_batches(batches, schema=self._reader(None).schema)

    def iter_tables(self) -> Iterator[pa.Table]:
        """Yield all rows, batch by batch."""
        for index in range(len(self.trailer["starts"])):
            yield pa.Table.from_batches([self._whole(index)])

    def close(self) -> None:
        """Close the file; a later read opens it again."""
        self._readers.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read_trailer(self) -> dict[str, Any]:
        reader = self._reader(None)
        # Decodes the names of the columns now, so that damage in them raises here.
        columns = columns_of(reader.schema)
        last = reader.num_record_batches - 1
        _, metadata = reader.get_batch_with_custom_metadata(last)
        data = metadata[TRAILER.encode()]
        if xxhash.xxh3_128_hexdigest(data).encode() != metadata[DIGEST.encode()]:
            raise ChecksumError(f"the trailer is damaged; {_REMEDY}", path=self._location.uri)
        trailer: dict[str, Any] = canonical_json.loads(data, path=self._location.uri)
        # Digests of batches are of values alone. Trailers of before have no columns.
        if trailer.get("columns", columns) != columns:
            raise ChecksumError(f"its columns are damaged; {_REMEDY}", path=self._location.uri)
        if self._expected is not None and columns != (asked := columns_of(self._expected)):
            raise FormatError(
                f"expected the columns {asked}, got {columns}: the file of something else;"
                f" {_REMEDY}",
                path=self._location.uri,
            )
        return trailer

    def _reader(self, is_record: bool | None) -> Any:
        """Return a reader of the records (True), of all other columns (False), or of all (None)."""
        if self._file is None:
            self._file = self._location.open_read()
        if is_record not in self._readers:
            options = None
            if is_record is not None:
                names = self._reader(None).schema.names
                fields = [i for i, name in enumerate(names) if (name == RECORD) is is_record]
                options = pa.ipc.IpcReadOptions(included_fields=fields)
            self._readers[is_record] = pa.ipc.open_file(self._file, options=options)
        return self._readers[is_record]

    def _whole(self, index: int) -> pa.RecordBatch:
        batch = self._valid(index, None)
        for is_record in (False, True):
            names = [name for name in batch.schema.names if (name == RECORD) is is_record]
            self._compare(index, [batch.column(name) for name in names], is_record=is_record)
        return batch

    def _read(self, index: int, *, is_record: bool) -> pa.RecordBatch:
        batch = self._valid(index, is_record)
        self._compare(index, batch.columns, is_record=is_record)
        return batch

    def _valid(self, index: int, is_record: bool | None) -> pa.RecordBatch:
        try:
            batch = self._reader(is_record).get_batch(index)
            batch.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            message = f"batch {index}: {error}; {_REMEDY}"
            raise FormatError(message, path=self._location.uri) from error
        return batch

    def _compare(self, index: int, columns: list[pa.Array], *, is_record: bool) -> None:
        # The digests of all batches are one string, of ``_DIGEST_CHARS`` characters each.
        digests = self.trailer["bodies" if is_record else "heads"]
        place = index * _DIGEST_CHARS
        if digest_of(columns) != digests[place : place + _DIGEST_CHARS]:
            raise ChecksumError(f"batch {index} is damaged; {_REMEDY}", path=self._location.uri)
