"""Spill files: the samples of one split group, sorted so that a shard is a run of rows.

An Arrow IPC file of ``SPILL_SCHEMA``, sorted by (split, key, source_hash, offset, ordinal). A last
batch of 0 rows carries metadata: for every split and shard the first row, what became of the
group's records, how many rows a batch has, and a digest of every batch and of the metadata itself.
A file without it is torn. Quarantined rows and the positions of shards are kept in the same way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa

from trainfeed.dataset import canonical
from trainfeed.errors import ChecksumError, FormatError, TruncatedError
from trainfeed.storage import Location

__all__ = ["QUARANTINE_SCHEMA", "SPILL_SCHEMA", "ArrowWithTrailer", "write_with_trailer"]

_BATCH_ROWS: Final = 16_384
_BATCH_BYTES: Final = 8 << 20
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
_TRAILER: Final = "trainfeed"
_DIGEST: Final = "trainfeed-sha256"

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


def write_with_trailer(file: BinaryIO, table: pa.Table, trailer: Mapping[str, Any]) -> None:
    """Write ``table`` in batches of equal numbers of rows, about 8 MiB each, then ``trailer``."""
    # One batch first: batch i of the file must start at row i * batch_rows, and all batches must
    # share their dictionaries, the last one included.
    columns = [column.combine_chunks() for column in table.columns]
    whole = pa.RecordBatch.from_arrays(columns, schema=table.schema)
    mean_bytes = max(1, whole.nbytes // max(1, len(whole)))
    batch_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // mean_bytes))
    batches = [whole.slice(start, batch_rows) for start in range(0, len(whole), batch_rows)]
    data = canonical.dumps(
        {**trailer, "batch_rows": batch_rows, "batches": [_digest(batch) for batch in batches]}
    )
    metadata = {_TRAILER: data.decode(), _DIGEST: hashlib.sha256(data).hexdigest()}
    with pa.ipc.new_file(file, table.schema, options=_OPTIONS) as writer:
        for batch in batches:
            writer.write_batch(batch)
        writer.write_batch(whole.slice(0, 0), custom_metadata=metadata)


class ArrowWithTrailer:
    """A file that ``write_with_trailer`` wrote, read by rows; every byte is verified.

    Args:
        location: The file; it is held open until ``close``.

    Raises:
        NotFoundError: There is no such file.
        TruncatedError: The file ends before its trailer.
        ChecksumError: The trailer is damaged.
    """

    def __init__(self, location: Location) -> None:
        self._path = location.uri
        self._file = location.open_read()
        try:
            self._reader = pa.ipc.open_file(self._file)
            self.trailer: dict[str, Any] = self._read_trailer()
        except (pa.ArrowException, IndexError, KeyError, TypeError) as error:
            self._file.close()
            raise TruncatedError(f"file has no trailer; {_REMEDY}", path=self._path) from error
        except FormatError:
            self._file.close()
            raise

    def rows(self, start: int, end: int) -> pa.Table:
        """Return a copy of rows ``[start, end)``; only the batches that hold them are read."""
        size = self.trailer["batch_rows"]
        pieces = []
        for index in range(start // size, -(-end // size) if end > start else 0):
            batch = self._batch(index)
            first, last = max(start - index * size, 0), min(end - index * size, len(batch))
            # A slice would keep its whole batch in memory.
            pieces.append(batch.take(pa.array(np.arange(first, last))))
        return pa.Table.from_batches(pieces, schema=self._reader.schema)

    def read_all(self) -> pa.Table:
        """Return all rows."""
        batches = [self._batch(index) for index in range(len(self.trailer["batches"]))]
        return pa.Table.from_batches(batches, schema=self._reader.schema)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_trailer(self) -> dict[str, Any]:
        last = self._reader.num_record_batches - 1
        _, metadata = self._reader.get_batch_with_custom_metadata(last)
        data = metadata[_TRAILER.encode()]
        if hashlib.sha256(data).hexdigest() != metadata[_DIGEST.encode()].decode():
            raise ChecksumError(f"the trailer is damaged; {_REMEDY}", path=self._path)
        trailer: dict[str, Any] = canonical.loads(data, path=self._path)
        return trailer

    def _batch(self, index: int) -> pa.RecordBatch:
        try:
            batch = self._reader.get_batch(index)
            batch.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise FormatError(f"batch {index}: {error}; {_REMEDY}", path=self._path) from error
        if _digest(batch) != self.trailer["batches"][index]:
            raise ChecksumError(f"batch {index} is damaged; {_REMEDY}", path=self._path)
        return batch


_REMEDY: Final = "nothing was published; clear the run from preprocess on"


def concat(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return the rows of ``tables`` one after another, with one dictionary per column."""
    return pa.concat_tables([schema.empty_table(), *tables]).unify_dictionaries().combine_chunks()


def _digest(batch: pa.RecordBatch) -> str:
    """Return a digest of what the rows say, however the batch lies in memory."""
    digest = hashlib.sha256()
    for column in batch.columns:
        if isinstance(column, pa.DictionaryArray):
            digest.update("\0".join(column.dictionary.to_pylist()).encode())
            digest.update(column.indices.to_numpy().tobytes())
        elif pa.types.is_binary(column.type) or pa.types.is_string(column.type):
            _, offsets, data = column.buffers()
            ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
            digest.update(np.diff(ends).tobytes())
            digest.update(memoryview(data or b"")[ends[0] : ends[-1]])
        else:
            digest.update(column.to_numpy().tobytes())
    return digest.hexdigest()
