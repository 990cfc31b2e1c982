"""Calls a preprocessing function record by record, and encodes its samples block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from trainfeed.errors import SampleShapeError
from trainfeed.pipeline.functions._account import TurnedDownRecords
from trainfeed.pipeline.functions._batch_mode import SCHEMA_REMEDY, value_lengths
from trainfeed.pipeline.functions._sample_limits import SampleLimits
from trainfeed.pipeline.functions._split_fields import SplitFields
from trainfeed.pipeline.functions._user_function import SampleFunction
from trainfeed.pipeline.sorting import SampleBlock
from trainfeed.preprocessing import Filtered, Record, Reject
from trainfeed.preprocessing.source_record import record_type
from trainfeed.reading_rules import NEWEST, ReadingRules
from trainfeed.samples import Schema, TypedCodec

__all__ = ["RecordMode", "iter_landed"]

# Records of a landed batch that are converted to Python at once; the function gets them one by one.
_RECORDS_AT_ONCE: Final = 16_384


class _Told(Protocol):
    def record(self, offset: int) -> None: ...


class RecordMode:
    """Calls the function with single records.

    Args:
        function: The function.
        schema: Schema of the samples.
        split_fields: The fields by which the data set is split; None to split single records.
        tally: Gets the records that yield no sample.
        told: Gets the offset of every record before the function gets the record.
        limits: Memory limits for samples.
        rules: The reading rules of the plan.
    """

    def __init__(  # noqa: PLR0913 - what the mode consists of
        self,
        function: SampleFunction,
        schema: Schema,
        split_fields: SplitFields | None,
        tally: TurnedDownRecords,
        *,
        told: _Told,
        limits: SampleLimits,
        rules: ReadingRules = NEWEST,
    ) -> None:
        self._function = function
        self._rules = rules
        self._codec = TypedCodec(schema)
        self._split_fields = split_fields
        self._tally = tally
        self._tell = told.record
        self._limits = limits

    @property
    def rows_at_once(self) -> int:
        """A fixed number, because the function gets the records one by one."""
        return _RECORDS_AT_ONCE

    def blocks(self, landed: pa.RecordBatch, source: str) -> Iterator[SampleBlock]:
        """Yield blocks of about ``limits.block_bytes``."""
        block = _Block(landed, source)
        # Local names, because the loop runs once per record.
        tell, samples_of, encode = self._tell, self._samples_of, self._codec.encode
        # With much memory, a block takes more than a record can: none too large may hide in it.
        most = min(self._limits.block_bytes, self._limits.sample_bytes)
        for row, record in enumerate(iter_landed(landed, source, self._rules)):
            tell(record.offset)
            field_hash = None
            try:
                for ordinal, sample in enumerate(samples_of(record)):
                    # Encoded before the next sample is asked for: a function may reuse its arrays.
                    encoded = encode(sample)
                    if not ordinal and self._split_fields is not None:
                        field_hash = self._split_fields.of_sample(sample)
                    block.add(row, ordinal, encoded, field_hash)
                    if block.num_bytes > most:
                        self._require_fitting(record, len(encoded))
                        yield block.finish()
                        block = _Block(landed, source)
            except SampleShapeError as error:
                message = f"broke the schema: {error}"
                raise self._function.mistake(record, message, SCHEMA_REMEDY) from error
        yield block.finish()

    def _require_fitting(self, record: Record, num_bytes: int) -> None:
        """Refuse a sample that is too large."""
        if num_bytes > self._limits.sample_bytes:
            raise self._limits.refusal(num_bytes, partial(self._function.mistake, record))

    def _samples_of(self, record: Record) -> list[Any]:
        """Return the samples of a record; none, with a count, if the function turned it down."""
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
        source: Source string of the records.

    Attributes:
        num_bytes: Size of the encoded samples.
    """

    def __init__(self, landed: pa.RecordBatch, source: str) -> None:
        self._landed = landed
        self._source = source
        self._records: list[bytes] = []
        self._rows: list[int] = []
        self._ordinals: list[int] = []
        self._hashes: list[int] = []
        self.num_bytes = 0

    def add(self, row: int, ordinal: int, encoded: bytes, field_hash: int | None) -> None:
        """Append an encoded sample of a record, and the record's split hash if there is one."""
        self._records.append(encoded)
        self._rows.append(row)
        self._ordinals.append(ordinal)
        if field_hash is not None:
            self._hashes.append(field_hash)
        self.num_bytes += len(encoded)

    def finish(self) -> SampleBlock:
        """Return the block."""
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
            num_bytes=int(value_lengths(self._landed)[rows[ordinals == 0]].sum()),
        )


def iter_landed(
    landed: pa.RecordBatch, source: str, rules: ReadingRules = NEWEST
) -> Iterator[Record]:
    """Yield landed records of one source as the values that a function gets."""
    values, keys = (landed.column(name).to_pylist() for name in ("value", "key"))
    stamps, offsets = (landed.column(name).to_numpy().tolist() for name in ("timestamp", "offset"))
    headers = _headers(landed.column("headers"))
    fields = zip(values, keys, stamps, headers, repeat(source), offsets, strict=False)
    # ``tuple.__new__`` makes named tuples in C, without a call of Python for each record.
    return map(tuple.__new__, repeat(record_type(rules)), fields)


def _headers(column: pa.Array) -> Iterable[tuple[tuple[str, bytes | None], ...]]:
    if not len(column.flatten()):
        return repeat(())
    return (
        tuple((header["key"], header["value"]) for header in headers or ())
        for headers in column.to_pylist()
    )
