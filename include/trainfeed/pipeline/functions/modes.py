"""Record mode and batch mode: how a function is called, and how its samples are encoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import PreprocessError, SampleShapeError
from trainfeed.pipeline.functions.account import (
    BatchSize,
    SampleLimits,
    SplitFields,
    TurnedDownRecords,
)
from trainfeed.pipeline.functions.user_function import (
    Judged,
    SampleFunction,
    in_order,
    source_batch,
)
from trainfeed.pipeline.inputs.row_json import row_values
from trainfeed.pipeline.labels import UNLABELLED, LabelJoin
from trainfeed.pipeline.landed_ranges import record_bytes
from trainfeed.pipeline.sorting.collector import SampleBlock
from trainfeed.preprocessing import Filtered, Record, Reject
from trainfeed.preprocessing.source_record import FIELDS, TypedRecord, record_type
from trainfeed.preprocessing.typed_fields import iter_fields
from trainfeed.samples import Schema, TypedCodec
from trainfeed.samples.arrow import ColumnEncoder
from trainfeed.sources import LINE_TOO_LONG
from trainfeed.specification import DatasetSpec
from trainfeed.versions.order import split_seed

# --- The protocol of the modes in which preprocessing functions are called, and batch mode

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
        lengths = record_bytes(landed)
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
        self, landed: pa.RecordBatch, source: str, judged: Judged, lengths: NDArray[np.int64]
    ) -> None:
        offsets = landed.column("offset").to_numpy()
        for reason, rows in judged.filtered.items():
            self._tally.filter(source, reason, offsets[rows].tolist(), int(lengths[rows].sum()))
        for row, reason, message in zip(*judged.rejected, strict=True):
            value = raw_value(landed, int(row))
            reject = Reject(reason, message)
            self._tally.reject(source, int(offsets[row]), value, reject, int(lengths[row]))


def raw_value(landed: pa.RecordBatch, row: int) -> bytes | None:
    """Return the bytes of a record for the quarantine: its value, else its typed fields as JSON."""
    value: bytes | None = landed.column("value")[row].as_py()
    if value is None and FIELDS in landed.schema.names:
        value = row_values(landed.column(FIELDS).slice(row, 1))[0].as_py()
    return value


class WithoutLongLines:
    """Quarantines the beginnings of lines that are too long; a mode gets the records between them.

    Args:
        mode: The mode.
        tally: Gets the records that yield no sample.
        most_bytes: Length of the longest line that a function gets.
    """

    def __init__(self, mode: Mode, tally: TurnedDownRecords, most_bytes: int) -> None:
        self._mode = mode
        self._tally = tally
        self._most_bytes = most_bytes

    @property
    def rows_at_once(self) -> int:
        """That of the mode."""
        return self._mode.rows_at_once

    def blocks(self, landed: pa.RecordBatch, source: str) -> Iterator[SampleBlock]:
        """Yield the blocks of the mode."""
        start = 0
        lengths = record_bytes(landed)
        for row in np.flatnonzero(lengths > self._most_bytes).tolist():
            yield from self._between(landed, source, start, row)
            record = landed.slice(row, 1)
            (offset,), (value,) = record["offset"].to_pylist(), record["value"].to_pylist()
            message = (
                f"expected lines of at most {self._most_bytes} bytes, got a longer one, of which"
                " the beginning is kept"
            )
            reject = Reject(LINE_TOO_LONG, message)
            self._tally.reject(source, offset, value, reject, int(lengths[row]))
            start = row + 1
        yield from self._between(landed, source, start, landed.num_rows)

    def _between(
        self, landed: pa.RecordBatch, source: str, start: int, end: int
    ) -> Iterator[SampleBlock]:
        if start < end:
            yield from self._mode.blocks(landed.slice(start, end - start), source)


# --- Calls a preprocessing function record by record, and encodes its samples block by block

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
        self._encode = TypedCodec(schema).encoder
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
        lengths = record_bytes(landed)
        block, num_bytes, field_hash = _Block(landed, source, lengths), 0, 0
        # Local names and few calls, because the loop runs once per record.
        tell, call, encode = self._tell, self._function.call, self._encode
        add_record, add_row = block.records.append, block.rows.append
        add_ordinal, add_hash = block.ordinals.append, block.hashes.append
        split = self._split_fields
        # With much memory, a block takes more than a record can: none too large may hide in it.
        most = min(self._limits.block_bytes, self._limits.sample_bytes)
        record: Record | None = None
        for row, record in enumerate(iter_landed(landed, source, self._rules)):
            tell(record.offset)
            try:
                try:
                    samples = call(record)
                except Reject as reject:
                    value = raw_value(landed, row) if record.value is None else record.value
                    self._tally.reject(source, record.offset, value, reject, int(lengths[row]))
                    continue
                if isinstance(samples, Filtered):
                    length = int(lengths[row])
                    self._tally.filter(source, samples.reason, [record.offset], length)
                    continue
                for ordinal, sample in enumerate(samples):
                    # Encoded before the next sample is asked for: a function may reuse its arrays.
                    encoded = encode(sample)
                    if split is not None:
                        field_hash = field_hash if ordinal else split.of_sample(sample)
                        add_hash(field_hash)
                    add_record(encoded)
                    add_row(row)
                    add_ordinal(ordinal)
                    num_bytes += len(encoded)
                    if num_bytes > most:
                        self._require_fitting(record, len(encoded))
                        yield self._finished(block, record)
                        num_bytes = 0
            except SampleShapeError as error:
                message = f"broke the schema: {error}"
                raise self._function.mistake(record, message, SCHEMA_REMEDY) from error
        yield self._finished(block, record)

    def _finished(self, block: _Block, record: Record | None) -> SampleBlock:
        """Return the block, and empty it; ``record`` is the last one that the function got."""
        if record is not None:
            self._function.refuse_fork(record)
        return block.finish()

    def _require_fitting(self, record: Record, num_bytes: int) -> None:
        """Refuse a sample that is too large."""
        if num_bytes > self._limits.sample_bytes:
            raise self._limits.refusal(num_bytes, partial(self._function.mistake, record))


class _Block:
    """A block that grows record by record: the loop of ``RecordMode`` appends to its lists.

    Args:
        landed: The records.
        source: Source string of the records.
        lengths: Their bytes, shape (n,).

    Attributes:
        records: The encoded samples.
        rows: Row of every sample's record in ``landed``.
        ordinals: Number of every sample within its record.
        hashes: Split hash of every sample, or nothing when single records are split.
    """

    def __init__(self, landed: pa.RecordBatch, source: str, lengths: NDArray[np.int64]) -> None:
        self._landed = landed
        self._source = source
        self._lengths = lengths
        self.records: list[bytes] = []
        self.rows: list[int] = []
        self.ordinals: list[int] = []
        self.hashes: list[int] = []

    def finish(self) -> SampleBlock:
        """Return the block, and empty the lists for the next one."""
        rows = np.array(self.rows, dtype=np.int64)
        ordinals = np.array(self.ordinals, dtype=np.int32)
        offsets, stamps = (self._landed.column(name).to_numpy() for name in ("offset", "timestamp"))
        block = SampleBlock(
            source=self._source,
            offsets=offsets[rows],
            ordinals=ordinals,
            stamps=stamps[rows],
            records=pa.array(self.records, pa.large_binary()),
            field_hashes=np.array(self.hashes, dtype=np.uint64) if self.hashes else None,
            num_bytes=int(self._lengths[rows[ordinals == 0]].sum()),
        )
        for values in (self.records, self.rows, self.ordinals, self.hashes):
            values.clear()
        return block


def iter_landed(
    landed: pa.RecordBatch, source: str, rules: ReadingRules = NEWEST
) -> Iterator[Record]:
    """Yield landed records of one source as the values that a function gets."""
    values, keys = (landed.column(name).to_pylist() for name in ("value", "key"))
    stamps, offsets = (landed.column(name).to_numpy().tolist() for name in ("timestamp", "offset"))
    headers = _headers(landed.column("headers"))
    parts = zip(values, keys, stamps, headers, repeat(source), offsets, strict=False)
    if FIELDS in landed.schema.names:
        return map(TypedRecord.of, parts, iter_fields(landed.column(FIELDS)))
    # ``tuple.__new__`` makes named tuples in C, without a call of Python for each record.
    return map(tuple.__new__, repeat(record_type(rules)), parts)


def _headers(column: pa.Array) -> Iterable[tuple[tuple[str, bytes | None], ...]]:
    if not len(column.flatten()):
        return repeat(())
    return (
        tuple((header["key"], header["value"]) for header in headers or ())
        for headers in column.to_pylist()
    )


# --- A preprocessing function whose samples get the labels of uploads

_UNLABELLED: Final = Filtered(UNLABELLED)


class LabelledFunction:
    """Joins the samples of a function with labels; see ``SampleFunction`` for the methods.

    Args:
        function: The function of the user.
        labels: The labels of the interval.
    """

    def __init__(self, function: SampleFunction, labels: LabelJoin) -> None:
        self._function = function
        self._labels = labels

    def call(self, record: Record) -> list[Mapping[str, Any]] | Filtered:
        """Return the samples with their labels, or ``Filtered`` if an inner join leaves none.

        Raises:
            SampleShapeError: The key of a sample is missing or has another type.
        """
        result = self._function.call(record)
        if isinstance(result, Filtered):
            return result
        return self._labels.of_samples(result) or _UNLABELLED

    def call_batch(self, batch: pa.RecordBatch) -> Judged:
        """Return the outcome of every record after the join."""
        judged = self._function.call_batch(batch)
        try:
            return self._joined(judged)
        except SampleShapeError as error:
            row = int(judged.rows[self._labels.first_wrong_row(judged.all_samples())])
            message = f"broke the schema: {error}"
            raise self.batch_mistake(batch, row, message, SCHEMA_REMEDY) from error

    def refuse_fork(self, record: Record) -> None:
        """Refuse to go on in a child of any fork."""
        self._function.refuse_fork(record)

    def mistake(self, record: Record, message: str, remedy: str) -> PreprocessError:
        """Return the error for a mistake of the function at a record."""
        return self._function.mistake(record, message, remedy)

    def batch_mistake(
        self, batch: pa.RecordBatch, row: int | None, message: str, remedy: str
    ) -> PreprocessError:
        """Return the error for a mistake of the function in a batch."""
        return self._function.batch_mistake(batch, row, message, remedy)

    def _joined(self, judged: Judged) -> Judged:
        samples, keep = self._labels.of_batch(judged.all_samples())
        if keep is None:
            return replace(judged, returned=samples, kept=None)
        # The samples of a record that are kept are numbered again from 0.
        rows = judged.rows[keep]
        _, rows, ordinals = in_order(rows, np.arange(len(rows)))
        lost = np.setdiff1d(judged.rows, rows)
        before = judged.filtered.get(UNLABELLED, lost[:0])
        turned = {UNLABELLED: np.sort(np.concatenate([before, lost]))} if len(lost) else {}
        return replace(
            judged,
            returned=samples.filter(pa.array(keep)),
            kept=None,
            rows=rows,
            ordinals=ordinals,
            filtered={**judged.filtered, **turned},
        )


# --- Chooses the mode of a data set's function, for builds and for predictions alike


class _OnRecord(Protocol):
    def record(self, offset: int) -> None: ...


def mode_of(  # noqa: PLR0913 - what a mode consists of
    spec: DatasetSpec,
    fields: Sequence[Mapping[str, Any]],
    function: SampleFunction,
    turned: TurnedDownRecords,
    *,
    told: _OnRecord,
    limits: SampleLimits,
    rules: ReadingRules = NEWEST,
) -> Mode:
    """Return the mode in which ``preprocess.input`` says that the function is called.

    Args:
        spec: The data set.
        fields: The schema as in manifests.
        function: The function and its lookups.
        turned: Gets the records that yield no sample.
        told: Gets the offset of every record before a function in record mode gets the record.
        limits: Memory limits for samples.
        rules: The reading rules of the plan.
    """
    schema = Schema.from_json(fields)
    by = spec.split.by
    seed = split_seed(spec.name)
    split = SplitFields([schema[name] for name in by], seed, rules) if by else None
    if spec.preprocess.input == "batch":
        return BatchMode(function, schema, split, turned, limits=limits, rules=rules)
    return RecordMode(function, schema, split, turned, told=told, limits=limits, rules=rules)
