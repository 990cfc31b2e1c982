"""Reads spill files and files of the same layout; every byte is verified before it is used.

A merge reads hundreds of these files at once. It can therefore read keys, positions and sizes
without the records, and a closed file opens again at the next read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import pyarrow as pa
import xxhash

from trainfeed import canonical_json
from trainfeed.errors import ChecksumError, FormatError, TruncatedError
from trainfeed.pipeline.sorting._spill_writer import DIGEST, RECORD, TRAILER, columns_of, digest_of
from trainfeed.storage import Location

__all__ = ["ArrowWithTrailer"]

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
