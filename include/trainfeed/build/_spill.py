"""Spill files: the samples of one split group, sorted so that a shard is a run of rows.

An Arrow IPC file of ``SPILL_SCHEMA``, sorted by (split, key, source_hash, offset, ordinal), in
batches of ``BATCH_ROWS``. A last batch of 0 rows carries metadata: for every split and shard the
first row, and what became of the group's records. A file without it is torn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final

import pyarrow as pa

from trainfeed.dataset import canonical
from trainfeed.errors import FormatError, TruncatedError
from trainfeed.storage import Location

__all__ = ["QUARANTINE_SCHEMA", "SPILL_SCHEMA", "ArrowWithTrailer", "write_with_trailer"]

BATCH_ROWS: Final = 16_384
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
_KEY: Final = "trainfeed"

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
    """Write ``table`` in batches of ``BATCH_ROWS`` rows, then ``trailer`` as JSON metadata."""
    # One batch first: batch i of the file must start at row i * BATCH_ROWS, and all batches must
    # share their dictionaries, the last one included.
    columns = [column.combine_chunks() for column in table.columns]
    whole = pa.RecordBatch.from_arrays(columns, schema=table.schema)
    with pa.ipc.new_file(file, table.schema, options=_OPTIONS) as writer:
        for start in range(0, len(whole), BATCH_ROWS):
            writer.write_batch(whole.slice(start, BATCH_ROWS))
        metadata = {_KEY: canonical.dumps(trailer).decode()}
        writer.write_batch(whole.slice(0, 0), custom_metadata=metadata)


class ArrowWithTrailer:
    """A file that ``write_with_trailer`` wrote, read by rows.

    Args:
        location: The file; it is held open until ``close``.

    Raises:
        NotFoundError: There is no such file.
        TruncatedError: The file ends before its trailer.
    """

    def __init__(self, location: Location) -> None:
        self._path = location.uri
        self._file = location.open_read()
        try:
            self._reader = pa.ipc.open_file(self._file)
            _, metadata = self._reader.get_batch_with_custom_metadata(
                self._reader.num_record_batches - 1
            )
            self.trailer: dict[str, Any] = json.loads(metadata[_KEY.encode()])
        except (pa.ArrowInvalid, IndexError, KeyError, TypeError, ValueError) as error:
            self._file.close()
            raise TruncatedError("file has no trailer", path=self._path) from error

    def rows(self, start: int, end: int) -> pa.Table:
        """Return rows ``[start, end)``; only the batches that hold them are read."""
        first, last = start // BATCH_ROWS, -(-end // BATCH_ROWS)
        try:
            batches = [self._reader.get_batch(index) for index in range(first, last)]
        except pa.ArrowInvalid as error:
            raise FormatError(
                f"rows {start} to {end} are damaged: {error}", path=self._path
            ) from error
        table = pa.Table.from_batches(batches, schema=self._reader.schema)
        return table.slice(start - first * BATCH_ROWS, end - start)

    def read_all(self) -> pa.Table:
        """Return all rows."""
        return self._reader.read_all()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def concat(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return the rows of ``tables`` one after another, with one dictionary per column."""
    return pa.concat_tables([schema.empty_table(), *tables]).unify_dictionaries().combine_chunks()
