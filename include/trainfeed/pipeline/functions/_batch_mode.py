"""The protocol of the modes in which preprocessing functions are called, and batch mode.

A mode turns landed records into blocks of encoded samples, and counts the records without samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.errors import SampleShapeError
from trainfeed.pipeline.functions._account import TurnedDownRecords
from trainfeed.pipeline.functions._batch_function import Judged, source_batch
from trainfeed.pipeline.functions._sample_limits import BatchSize, SampleLimits
from trainfeed.pipeline.functions._split_fields import SplitFields
from trainfeed.pipeline.functions._user_function import SampleFunction
from trainfeed.pipeline.sorting import SampleBlock
from trainfeed.preprocessing import Reject
from trainfeed.reading_rules import NEWEST, ReadingRules
from trainfeed.samples import Schema
from trainfeed.samples.arrow import ColumnEncoder

__all__ = ["SCHEMA_REMEDY", "BatchMode", "Mode", "value_lengths"]

SCHEMA_REMEDY: Final = "fix the function, or the schema in dataset.yaml"


class Mode(Protocol):
    """Calls a function and encodes the samples that it returns."""

    @property
    def rows_at_once(self) -> int:
        """The most landed records that the next call of ``blocks`` should get."""

    def blocks(self, landed: pa.RecordBatch, source: str) -> Iterator[SampleBlock]:
        """Yield the samples of landed records of one source, in blocks of about equal bytes.

        Raises:
            PreprocessError: The function raised, or returned something that is not allowed.
            MemoryLimitError: Too many records are broken, or a sample is too large.
        """


class BatchMode:
    """Calls the function with batches.

    Args:
        function: The function.
        schema: Schema of the samples.
        split_fields: The fields by which the data set is split; None to split single records.
        tally: Gets the records that yield no sample.
        limits: Memory limits for samples.
        rules: The reading rules of the plan.
    """

    def __init__(
        self,
        function: SampleFunction,
        schema: Schema,
        split_fields: SplitFields | None,
        tally: TurnedDownRecords,
        *,
        limits: SampleLimits,
        rules: ReadingRules = NEWEST,
    ) -> None:
        self._function = function
        self._rules = rules
        self._names = schema.names
        self._columns = ColumnEncoder(schema)
        self._split_fields = split_fields
        self._tally = tally
        self._limits = limits
        sample_bytes = schema.record_dtype.itemsize if schema.is_fixed else None
        self._size = BatchSize(sample_bytes, limits.block_bytes)

    @property
    def rows_at_once(self) -> int:
        """The number of records whose samples should fit into a block, from the samples so far."""
        return self._size.rows

    def blocks(self, landed: pa.RecordBatch, source: str) -> Iterator[SampleBlock]:
        """Yield blocks of about ``limits.block_bytes``."""
        batch = source_batch(landed, source, self._rules)
        judged = self._function.call_batch(batch)
        num_bytes = judged.returned.nbytes
        self._size.learn(batch.num_rows, num_bytes)
        offsets, stamps = (landed.column(name).to_numpy() for name in ("offset", "timestamp"))
        lengths = value_lengths(landed)
        self._turn_down(landed, source, judged, lengths)
        hashes = self._hashes(judged)
        # Samples per block: the bytes of a block, divided by the mean bytes of a sample.
        step = max(1, len(judged.rows) * self._limits.block_bytes // max(1, num_bytes))
        for start in range(0, len(judged.rows), step):
            part = slice(start, start + step)
            rows, ordinals = judged.rows[part], judged.ordinals[part]
            yield SampleBlock(
                source=source,
                offsets=offsets[rows],
                ordinals=ordinals,
                stamps=stamps[rows],
                records=self._encode(batch, judged.samples(self._names, part), rows),
                field_hashes=None if hashes is None else hashes[part],
                # Source bytes of a record count once: with its first sample.
                num_bytes=int(lengths[rows[ordinals == 0]].sum()),
            )

    def _encode(
        self, batch: pa.RecordBatch, samples: pa.RecordBatch, rows: NDArray[np.int64]
    ) -> pa.Array:
        try:
            records = self._columns.encode(samples)
        except SampleShapeError as error:
            row = int(rows[self._columns.first_wrong_row(samples)])
            message = f"broke the schema: {error}"
            raise self._function.batch_mistake(batch, row, message, SCHEMA_REMEDY) from error
        largest = pc.max(pc.binary_length(records)).as_py() or 0
        if largest > self._limits.sample_bytes:
            row = int(rows[pc.index(pc.binary_length(records), largest).as_py()])
            mistake = partial(self._function.batch_mistake, batch, row)
            raise self._limits.refusal(largest, mistake)
        return records

    def _hashes(self, judged: Judged) -> NDArray[np.uint64] | None:
        if self._split_fields is None:
            return None
        hashes = self._split_fields.of_batch(judged.samples(self._split_fields.names))
        # All samples of a record get the hash of its first sample, ``ordinal`` rows above.
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


def value_lengths(landed: pa.RecordBatch) -> NDArray[np.int32]:
    """Return the bytes of every value, 0 for null."""
    lengths: NDArray[np.int32] = pc.fill_null(
        pc.binary_length(landed.column("value")), 0
    ).to_numpy()
    return lengths
