"""The two ways to call a preprocessing function: record by record, or with whole batches.

Both turn landed records into blocks of encoded samples and count what yields none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.build._account import Tally
from trainfeed.build._batch import Judged, source_batch
from trainfeed.build._columns import ColumnEncoder
from trainfeed.build._record import Filtered, Record, Reject
from trainfeed.build._samples import SampleBlock
from trainfeed.build._split_fields import SplitFields
from trainfeed.build._user_function import UserFunction
from trainfeed.errors import SampleShapeError
from trainfeed.samples import Schema, TypedCodec

__all__ = ["BatchMode", "Mode", "RecordMode"]

_SCHEMA_REMEDY: Final = "fix the function, or the schema in dataset.yaml"


class Mode(Protocol):
    """Calls a function and encodes what it returns."""

    def blocks(self, landed: pa.RecordBatch, source: str) -> Iterator[SampleBlock]:
        """Yield the samples of landed records of one source.

        Raises:
            PreprocessError: The function raised, or returned what it may not.
            MemoryLimitError: Too many records are broken.
        """


class BatchMode:
    """Calls the function with batches.

    Args:
        function: The function.
        schema: Of the samples.
        split_fields: What a data set is split by, None for single records.
        tally: Counts the records that yield no sample.
    """

    def __init__(
        self,
        function: UserFunction,
        schema: Schema,
        split_fields: SplitFields | None,
        tally: Tally,
    ) -> None:
        self._function = function
        self._columns = ColumnEncoder(schema)
        self._split_fields = split_fields
        self._tally = tally

    def blocks(self, landed: pa.RecordBatch, source: str) -> Iterator[SampleBlock]:
        """Yield one block."""
        batch = source_batch(landed, source)
        judged = self._function.call_batch(batch)
        offsets, stamps = (landed.column(name).to_numpy() for name in ("offset", "timestamp"))
        lengths = _lengths(landed)
        self._turn_down(landed, source, judged, lengths)
        rows = judged.rows
        yield SampleBlock(
            source=source,
            offsets=offsets[rows],
            ordinals=judged.ordinals,
            stamps=stamps[rows],
            records=self._encode(batch, judged),
            field_hashes=self._hashes(judged),
            num_bytes=int(lengths[rows[judged.ordinals == 0]].sum()),
        )

    def _encode(self, batch: pa.RecordBatch, judged: Judged) -> pa.Array:
        try:
            return self._columns.encode(judged.samples)
        except SampleShapeError as error:
            row = int(judged.rows[self._columns.first_wrong_row(judged.samples)])
            message = f"broke the schema: {error}"
            raise self._function.batch_mistake(batch, row, message, _SCHEMA_REMEDY) from error

    def _hashes(self, judged: Judged) -> NDArray[np.uint64] | None:
        if self._split_fields is None:
            return None
        hashes = self._split_fields.of_batch(judged.samples)
        # That of a record's first sample goes for all of them.
        firsts: NDArray[np.uint64] = hashes[np.arange(len(hashes)) - judged.ordinals]
        return firsts

    def _turn_down(
        self, landed: pa.RecordBatch, source: str, judged: Judged, lengths: NDArray[np.int32]
    ) -> None:
        offsets = landed.column("offset").to_numpy()
        for reason, rows in judged.filtered.items():
            self._tally.filter(source, reason, offsets[rows].tolist(), int(lengths[rows].sum()))
        values = landed.column("value")
        for row, reason, message in zip(*judged.rejected, strict=True):
            value = values[int(row)].as_py()
            self._tally.reject(source, int(offsets[row]), value, Reject(reason, message))


class _Told(Protocol):
    def record(self, offset: int) -> None: ...


class RecordMode:
    """Calls the function with single records.

    Args:
        function: The function.
        schema: Of the samples.
        split_fields: What a data set is split by, None for single records.
        tally: Counts the records that yield no sample.
        told: Is told the offset of every record before the function gets it.
        block_bytes: Encoded samples of a block, about.
    """

    def __init__(
        self,
        function: UserFunction,
        schema: Schema,
        split_fields: SplitFields | None,
        tally: Tally,
        *,
        told: _Told,
        block_bytes: int,
    ) -> None:
        self._function = function
        self._codec = TypedCodec(schema)
        self._split_fields = split_fields
        self._tally = tally
        self._tell = told.record
        self._block_bytes = block_bytes

    def blocks(self, landed: pa.RecordBatch, source: str) -> Iterator[SampleBlock]:
        """Yield blocks of about ``block_bytes``."""
        block = _Block(landed, source)
        tell, samples_of, encode = self._tell, self._samples_of, self._codec.encode
        for row, record in enumerate(iter_landed(landed, source)):
            tell(record.offset)
            samples = samples_of(record)
            try:
                for ordinal, sample in enumerate(samples):
                    # At once: a function may use the same arrays for the next one.
                    block.add(row, ordinal, encode(sample))
            except SampleShapeError as error:
                message = f"broke the schema: {error}"
                raise self._function.mistake(record, message, _SCHEMA_REMEDY) from error
            if samples and self._split_fields is not None:
                block.add_hashes(self._split_fields.of_sample(samples[0]), len(samples))
            if block.num_bytes > self._block_bytes:
                yield block.finish()
                block = _Block(landed, source)
        yield block.finish()

    def _samples_of(self, record: Record) -> list[Any]:
        """Return the samples of a record; none when it was turned down, which is counted."""
        try:
            result = self._function.call(record)
        except Reject as reject:
            self._tally.reject(record.source, record.offset, record.value, reject)
            return []
        if isinstance(result, Filtered):
            num_bytes = len(record.value or b"")
            self._tally.filter(record.source, result.reason, [record.offset], num_bytes)
            return []
        return result


class _Block:
    """A block that grows record by record.

    Args:
        landed: The records.
        source: Their source.

    Attributes:
        num_bytes: Of the encoded samples.
    """

    def __init__(self, landed: pa.RecordBatch, source: str) -> None:
        self._landed = landed
        self._source = source
        self._records: list[bytes] = []
        self._rows: list[int] = []
        self._ordinals: list[int] = []
        self._hashes: list[int] = []
        self.num_bytes = 0

    def add(self, row: int, ordinal: int, encoded: bytes) -> None:
        """Take an encoded sample of a record."""
        self._records.append(encoded)
        self._rows.append(row)
        self._ordinals.append(ordinal)
        self.num_bytes += len(encoded)

    def add_hashes(self, field_hash: int, count: int) -> None:
        """Take the split hash of a record, which goes for all ``count`` samples of it."""
        self._hashes += [field_hash] * count

    def finish(self) -> SampleBlock:
        """Return what was taken."""
        rows = np.array(self._rows, dtype=np.int64)
        ordinals = np.array(self._ordinals, dtype=np.int32)
        offsets, stamps = (self._landed.column(name).to_numpy() for name in ("offset", "timestamp"))
        return SampleBlock(
            source=self._source,
            offsets=offsets[rows],
            ordinals=ordinals,
            stamps=stamps[rows],
            records=pa.array(self._records, pa.large_binary()),
            field_hashes=np.array(self._hashes, dtype=np.uint64) if self._hashes else None,
            num_bytes=int(_lengths(self._landed)[rows[ordinals == 0]].sum()),
        )


def _lengths(landed: pa.RecordBatch) -> NDArray[np.int32]:
    """Return the bytes of every value, 0 for null."""
    lengths: NDArray[np.int32] = pc.fill_null(
        pc.binary_length(landed.column("value")), 0
    ).to_numpy()
    return lengths


def iter_landed(landed: pa.RecordBatch, source: str) -> Iterator[Record]:
    """Yield landed records of one source as a function gets them."""
    values, keys = (landed.column(name).to_pylist() for name in ("value", "key"))
    stamps, offsets = (landed.column(name).to_numpy().tolist() for name in ("timestamp", "offset"))
    headers = _headers(landed.column("headers"))
    fields = zip(values, keys, stamps, headers, repeat(source), offsets, strict=False)
    return map(tuple.__new__, repeat(Record), fields)


def _headers(column: pa.Array) -> Iterable[tuple[tuple[str, bytes | None], ...]]:
    if not len(column.flatten()):
        return repeat(())
    return (
        tuple((header["key"], header["value"]) for header in headers or ())
        for headers in column.to_pylist()
    )
