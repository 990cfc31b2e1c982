"""The outcome of every record of a function: counts, quarantine, split hash, limits of samples."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from trainfeed.core.canonical_json import JsonFields
from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import FormatError, MemoryLimitError, PreprocessError, TrainFeedError
from trainfeed.pipeline.labels import JoinCounts
from trainfeed.pipeline.quarantine import MOST_RAW_BYTES
from trainfeed.pipeline.sorting.spill_files import QUARANTINE_SCHEMA
from trainfeed.preprocessing import Reject
from trainfeed.recordio import MAX_RAW_BYTES
from trainfeed.samples import Field, Schema, components_of_schema
from trainfeed.samples.arrow import ColumnEncoder, joined
from trainfeed.specification import DatasetSpec
from trainfeed.versions import Leaf, Ledger, SourceLedger, ValidLeaf
from trainfeed.versions.order import Uint64s, source_hash

# --- Limits for the size of a sample, and for the number of records in a batch of a function

# A chunk stores the length of a record, 4 bytes, before the record.
_MAX_SAMPLE_BYTES: Final = MAX_RAW_BYTES - 4
# At most so many copies of a sample are in memory at once.
_COPIES: Final = 10
# Most records of a batch: with their samples, they stay in the processor's cache.
_BATCH_ROWS: Final = 16_384
# A batch has at most so many times the records of the batch before, while samples are small.
_GROWTH: Final = 4
_FIRST_SHARE: Final = 16
# Memory of a field or component besides samples: codec, statistics, and their JSON. Measured with
# 10,000 fields of integers, whose statistics have frequent values and a histogram.
_FIELD_BYTES: Final = 40 << 10


@dataclass(frozen=True)
class SampleLimits:
    """The memory that the samples of one process may take.

    Attributes:
        memory_bytes: The setting, for all processes of a task.
        limit_bytes: The share of this process.
        block_bytes: About how many bytes are encoded at once.
    """

    memory_bytes: int
    limit_bytes: int
    block_bytes: int

    @property
    def sample_bytes(self) -> int:
        """The most bytes that a sample may take."""
        return min(_MAX_SAMPLE_BYTES, self.limit_bytes // _COPIES)

    def refusal(
        self, num_bytes: int, mistake: Callable[[str, str], PreprocessError]
    ) -> TrainFeedError:
        """Return the error for a sample that is too large.

        Args:
            num_bytes: Size of the sample.
            mistake: Makes the error from a description of the mistake, and the remedy.
        """
        made = f"made a sample of {num_bytes} bytes"
        if num_bytes > _MAX_SAMPLE_BYTES:
            return mistake(
                f"{made}, a record takes {_MAX_SAMPLE_BYTES} at most,", "return smaller samples"
            )
        needed = -(-num_bytes * _COPIES * self.memory_bytes // self.limit_bytes)
        expected = (
            f"expected at most {self.sample_bytes}, a tenth of what this process has of"
            f" resources.memory_bytes = {self.memory_bytes}"
        )
        remedy = (
            f"raise resources.memory_bytes to {needed}, lower resources.processes, or return"
            " smaller samples"
        )
        return MemoryLimitError(str(mistake(f"{made}, {expected},", remedy)))


class BatchSize:
    """The number of records in the next batch of a function in batch mode.

    Args:
        sample_bytes: Size of a sample if it is fixed; else None, and the first batch is one record.
        block_bytes: The most bytes that the samples of a batch should take.

    Attributes:
        rows: Number of records in the next batch.
    """

    def __init__(self, sample_bytes: int | None, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        first = 1 if sample_bytes is None else block_bytes // (_FIRST_SHARE * max(1, sample_bytes))
        self.rows = max(1, min(_BATCH_ROWS, first))

    def learn(self, num_rows: int, num_bytes: int) -> None:
        """Take into account that ``num_rows`` records became samples of ``num_bytes`` bytes."""
        fitting = num_rows * self._block_bytes // max(1, num_bytes)
        self.rows = max(1, min(_BATCH_ROWS, fitting, self.rows * _GROWTH))


def field_bytes(spec: DatasetSpec) -> int:
    """Return the bytes that the fields of a data set take in a process, besides samples."""
    components = components_of_schema(Schema.from_json(spec.schema_fields()))
    return _FIELD_BYTES * (len(spec.fields) + components)


def require_room_for_fields(spec: DatasetSpec) -> None:
    """Refuse more fields than the memory has room for, before anything is read.

    Raises:
        MemoryLimitError: There are more; the message has the ``memory_bytes`` that would suffice.
    """
    needed, resources = field_bytes(spec), spec.resources
    if needed > resources.memory_bytes:
        raise MemoryLimitError(
            f"data set {spec.name!r} has {len(spec.fields)} fields, whose codecs and"
            f" statistics take {needed} bytes, expected at most resources.memory_bytes ="
            f" {resources.memory_bytes}; nothing was read and nothing was published; raise"
            f" resources.memory_bytes to {needed}, or put fields of one dtype into one with a"
            " shape, then build the interval again"
        )


def fitting_processes(spec: DatasetSpec) -> int:
    """Return how many processes can share the memory, each with room for one sample.

    Samples without a fixed size do not count, because their sizes are not known yet; fields do.
    """
    resources = spec.resources
    schema = Schema.from_json(spec.schema_fields())
    least = max(1, field_bytes(spec))
    if schema.is_fixed:
        least = max(least, _COPIES * schema.record_dtype.itemsize)
    return max(1, min(resources.processes, resources.memory_bytes // least))


def room_for_samples(spec: DatasetSpec) -> int:
    """Return the memory that the statistics of the fields leave, at least a quarter of all."""
    memory_bytes = spec.resources.memory_bytes
    return max(memory_bytes // 4, memory_bytes - field_bytes(spec))


# --- The split hash of records that are split by fields of their first sample

_ABSENT: Final = b"\0"


class SplitFields:
    """Hashes the fields by which a data set is split.

    Args:
        fields: The fields, of fixed size or bytes or str; at least one.
        seed: Seed of the hash.
        rules: The reading rules of the plan.

    Attributes:
        names: Names of the fields.
    """

    def __init__(self, fields: Sequence[Field], seed: int, rules: ReadingRules = NEWEST) -> None:
        self._fields = fields
        self.names = tuple(field.name for field in fields)
        self._seed = seed
        self._rules = rules

    def of_sample(self, sample: Mapping[str, Any]) -> int:
        """Return the hash of one sample."""
        data = b"".join(
            _canonical(field, sample.get(field.name), self._rules) for field in self._fields
        )
        return xxhash.xxh3_64_intdigest(data, seed=self._seed)

    def of_batch(self, samples: pa.RecordBatch) -> Uint64s:
        """Return the hash of every row, uint64 of shape (n,)."""
        data = joined([_canonical_column(field, samples, self._rules) for field in self._fields])
        # Each distinct value is hashed once: a split by fields is meant for values that repeat.
        codes = data.dictionary_encode()
        hashes = np.array(
            [xxhash.xxh3_64_intdigest(v, seed=self._seed) for v in codes.dictionary.to_pylist()],
            dtype=np.uint64,
        )
        found: Uint64s = hashes[codes.indices.to_numpy()]
        return found


def _canonical(field: Field, value: Any, rules: ReadingRules) -> bytes:
    if value is None:
        return _ABSENT
    if field.is_text:
        data = value.encode() if isinstance(value, str) else bytes(value)
        return b"\1" + len(data).to_bytes(4, "little") + data
    return b"\1" + _one_of_equals(np.asarray(value, dtype=field.values_dtype), rules).tobytes()


def _one_of_equals(values: NDArray[Any], rules: ReadingRules) -> NDArray[Any]:
    """Return values with one form of zero and one of NaN."""
    if values.dtype.kind != "f" or rules is ReadingRules.GUESSED:
        return values
    found: NDArray[Any] = np.where(np.isnan(values), np.nan, values + 0.0).astype(values.dtype)
    return found


def _canonical_column(field: Field, samples: pa.RecordBatch, rules: ReadingRules) -> pa.Array:
    """Return the bytes of ``_canonical`` for every row, as large binaries."""
    # The typed record of a single optional field has exactly these bytes: one byte of presence, and
    # for text a 32-bit count, which is its length.
    lone = Field(field.name, field.dtype, field.shape, optional=True)
    names = [field.name] if field.name in samples.schema.names else []
    part = samples.select(names) if names else pa.RecordBatch.from_arrays([], [])
    if not names or samples.column(field.name).null_count == samples.num_rows:
        return pa.array([_ABSENT] * samples.num_rows, pa.large_binary())
    data = ColumnEncoder(Schema((lone,))).encode(part)
    if field.dtype.startswith("float") and rules is not ReadingRules.GUESSED:
        kind = np.dtype(field.values_dtype)
        data = pa.array([_of_equals(each, kind, rules) for each in data.to_pylist()], data.type)
    absent = samples.column(field.name).is_null()
    return pc.if_else(absent, pa.scalar(_ABSENT, pa.large_binary()), data)


def _of_equals(data: bytes, kind: np.dtype[Any], rules: ReadingRules) -> bytes:
    return data[:1] + _one_of_equals(np.frombuffer(data[1:], kind), rules).tobytes()


# --- Counts the outcome of every record while a group of pieces is preprocessed

# Bytes of a row in Arrow's columns beside its texts: source (4), offset (8), three ends of texts.
_FIXED_BYTES: Final = 24
# Limits for the offsets and rows that wait as Python objects, of some hundred bytes each.
_PENDING_OFFSETS: Final = 16_384
_PENDING_ROWS: Final = 1024
_PENDING_BYTES: Final = 1 << 20


class TurnedDownRecords(Protocol):
    """Gets the records that a function turns down."""

    def filter(self, source: str, reason: str, offsets: list[int], num_bytes: int) -> None:
        """Take filtered records at ``offsets``, of ``num_bytes`` together."""

    def reject(
        self,
        source: str,
        offset: int,
        value: bytes | None,
        reject: Reject,
        num_bytes: int | None = None,
    ) -> None:
        """Take a broken record with its value, or its fields as JSON.

        It counts as ``num_bytes``, by default those of the value.
        """


class _TurnedDownCount:
    """Count, bytes and position hashes of records of one source that were turned down.

    Offsets wait in an array of machine words until there are enough for one call of numpy.

    Args:
        source: Hash of the source.
    """

    def __init__(self, source: int) -> None:
        self._source = source
        self._leaf = Leaf()
        self._offsets = array("q")
        self._num_bytes = 0

    def extend(self, offsets: list[int], num_bytes: int) -> None:
        """Count records at ``offsets`` that have ``num_bytes`` together."""
        self._offsets.extend(offsets)
        self._num_bytes += num_bytes
        if len(self._offsets) >= _PENDING_OFFSETS:
            self._fold()

    def leaf(self) -> Leaf:
        """Return the account."""
        self._fold()
        return self._leaf

    def _fold(self) -> None:
        offsets = np.array(self._offsets, dtype=np.int64)
        self._leaf += Leaf.of(self._source, offsets, self._num_bytes)
        self._offsets, self._num_bytes = array("q"), 0


class Tally:
    """The records of a task that yield no sample.

    Args:
        sources: Source strings of the plan, in its order.
        limit_bytes: The most bytes that the quarantine of the task may keep.
        run_bytes: About how many bytes of the quarantine are held in memory.

    Attributes:
        kept_bytes: Bytes in quarantine: raw bytes, reason, message and position of every record.
    """

    def __init__(self, sources: list[str], limit_bytes: int, run_bytes: int) -> None:
        self._index = {source: index for index, source in enumerate(sources)}
        self._limit_bytes = limit_bytes
        self._filtered: dict[str, dict[str, _TurnedDownCount]] = {}
        self._quarantined: dict[str, _TurnedDownCount] = {}
        self._quarantine = _Quarantine(run_bytes)
        self.kept_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the quarantined records in memory should be written now."""
        return self._quarantine.is_full

    def filter(self, source: str, reason: str, offsets: list[int], num_bytes: int) -> None:
        """Count filtered records at ``offsets``, of ``num_bytes`` together."""
        turned = self._filtered.setdefault(source, {})
        if reason not in turned:
            turned[reason] = _TurnedDownCount(source_hash(source))
        turned[reason].extend(offsets, num_bytes)

    def reject(
        self,
        source: str,
        offset: int,
        value: bytes | None,
        reject: Reject,
        num_bytes: int | None = None,
    ) -> None:
        """Add a broken record to the quarantine.

        Raises:
            MemoryLimitError: The quarantine exceeds its limit.
        """
        if source not in self._quarantined:
            self._quarantined[source] = _TurnedDownCount(source_hash(source))
        raw = value or b""
        self._quarantined[source].extend([offset], len(raw) if num_bytes is None else num_bytes)
        raw = raw[:MOST_RAW_BYTES]
        self.kept_bytes += self._quarantine.add(
            self._index[source], offset, reject.reason, reject.message, raw
        )
        require_bounded(self.kept_bytes, self._limit_bytes, f" at {source} offset {offset}")

    def take_quarantine(self) -> pa.Table:
        """Return and drop the quarantined records in memory, in the order of their arrival."""
        return self._quarantine.take()

    def ledger(self, read: Mapping[str, Leaf], valid: Mapping[str, ValidLeaf]) -> Ledger:
        """Return the ledger of all records.

        Args:
            read: Source → account of the records read.
            valid: Source → account of the records with samples.
        """
        result = Ledger()
        for source, leaf in read.items():
            filtered = self._filtered.get(source, {})
            quarantined = self._quarantined.get(source)
            result[source] = SourceLedger(
                read=leaf,
                valid=valid[source],
                quarantined=quarantined.leaf() if quarantined else Leaf(),
                filtered={reason: filtered[reason].leaf() for reason in sorted(filtered)},
            )
        return result


class _Quarantine:
    """Quarantined records in memory, as Arrow columns, which take far less than Python objects.

    Args:
        run_bytes: About how many bytes it may hold before it is full.
    """

    def __init__(self, run_bytes: int) -> None:
        self._run_bytes = run_bytes
        self._rows: list[tuple[int, int, str, str, bytes]] = []
        self._row_bytes = 0
        self._batches: list[pa.RecordBatch] = []
        self._batch_bytes = 0

    @property
    def is_full(self) -> bool:
        return self._row_bytes + self._batch_bytes >= self._run_bytes

    def add(self, source: int, offset: int, reason: str, message: str, raw: bytes) -> int:
        """Add a record; return its bytes in the quarantine."""
        num_bytes = _FIXED_BYTES + len(reason) + len(message.encode()) + len(raw)
        self._rows.append((source, offset, reason, message, raw))
        self._row_bytes += num_bytes
        if len(self._rows) >= _PENDING_ROWS or self._row_bytes >= _PENDING_BYTES:
            self._pack()
        return num_bytes

    def take(self) -> pa.Table:
        """Return all rows, and drop them."""
        self._pack()
        batches, self._batches, self._batch_bytes = self._batches, [], 0
        return pa.Table.from_batches(batches, schema=QUARANTINE_SCHEMA)

    def _pack(self) -> None:
        if not self._rows:
            return
        columns = zip(*self._rows, strict=True)
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(columns, QUARANTINE_SCHEMA, strict=True)
        ]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=QUARANTINE_SCHEMA))
        self._batch_bytes += self._row_bytes
        self._rows, self._row_bytes = [], 0


def require_bounded(kept_bytes: int, limit_bytes: int, place: str = "") -> None:
    """Refuse more bytes in quarantine than one task may keep.

    Raises:
        MemoryLimitError: ``kept_bytes`` is above the limit.
    """
    if kept_bytes > limit_bytes:
        raise MemoryLimitError(
            f"quarantined records of one task exceed resources.memory_bytes = {limit_bytes} bytes"
            f"{place}; nothing was published; look at why so many are broken, raise it, or lower"
            " resources.records_per_task in dataset.yaml"
        )


# --- The result of a worker for its ranges: files, and accounts of records and late records


@dataclass
class Lateness(JsonFields, optional=("unstamped", "ahead")):
    """Records of one source that are stamped outside of the interval to which their offset belongs.

    Attributes:
        late: Number of records stamped before the interval.
        future: Number of records stamped at its end or later.
        max_lateness_ms: The largest distance of a stamp before the interval, in milliseconds.
        unstamped: Number of records without a stamp, which are neither late nor future.
        ahead: Number of the ``future`` records that are refused because they are stamped too long
            after the end; counted only for the policy ``fail``.
    """

    late: int = 0
    future: int = 0
    max_lateness_ms: int = 0
    unstamped: int = 0
    ahead: int = 0

    def count(
        self, stamps: NDArray[np.int64], start_ms: int, end_ms: int, ahead_ms: int | None = None
    ) -> None:
        """Count the stamps of a batch, int64 milliseconds of shape (n,).

        Args:
            stamps: Milliseconds since 1970; negative for a record without a stamp.
            start_ms: Start of the interval.
            end_ms: End of the interval.
            ahead_ms: Stamps from this time on are refused; None to refuse none.
        """
        stamped = stamps >= 0
        late = stamped & (stamps < start_ms)
        self.unstamped += len(stamps) - int(stamped.sum())
        self.late += int(late.sum())
        self.future += int((stamps >= end_ms).sum())
        if ahead_ms is not None:
            self.ahead += int((stamps >= ahead_ms).sum())
        if late.any():
            self.max_lateness_ms = max(self.max_lateness_ms, int(start_ms - stamps[late].min()))

    def __add__(self, other: Lateness) -> Lateness:
        return Lateness(
            self.late + other.late,
            self.future + other.future,
            max(self.max_lateness_ms, other.max_lateness_ms),
            self.unstamped + other.unstamped,
            self.ahead + other.ahead,
        )

    @classmethod
    def from_json(cls, value: Mapping[str, int]) -> Lateness:
        """Read the JSON of ``to_json``.

        Raises:
            TypeError: A value is no whole number, or a name is unknown.
        """
        if not all(type(count) is int for count in value.values()):
            raise TypeError(f"expected counts of late records, got {value!r}")
        return cls(**value)


@dataclass(frozen=True)
class RecordAccount(JsonFields, optional=("joined",)):
    """The account of the records of some ranges of a plan.

    Attributes:
        ledger: The ledger, by source.
        late: Source → records stamped outside of the interval.
        ranges: Indices of the ranges.
        cut: The ``cut_sha256`` of the plan, without which the indices say nothing.
        joined: The samples that were joined with labels; None for a data set without uploads.
    """

    ledger: Ledger
    late: Mapping[str, Lateness]
    ranges: Sequence[int]
    cut: str
    joined: JoinCounts | None = None

    @classmethod
    def total(cls, parts: Sequence[RecordAccount]) -> RecordAccount:
        """Add up the accounts of parts that follow one another."""
        late: dict[str, Lateness] = {}
        for part in parts:
            for source, counts in part.late.items():
                late[source] = late.get(source, Lateness()) + counts
        ranges = [index for part in parts for index in part.ranges]
        joined = [part.joined for part in parts if part.joined is not None]
        total = sum(joined, start=JoinCounts()) if joined else None
        cut = ",".join(sorted({part.cut for part in parts}))
        return cls(Ledger.total(part.ledger for part in parts), late, ranges, cut, total)

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> RecordAccount:
        """Read the JSON of ``to_json``, from a trailer that may hold further keys.

        Raises:
            FormatError: The trailer has no such account.
        """
        try:
            ledger, late, ranges = (value[name] for name in ("ledger", "late", "ranges"))
            return cls(
                Ledger.from_json(cast("Mapping[str, object]", ledger)),
                {source: Lateness.from_json(counts) for source, counts in _items(late)},
                [_index(each) for each in cast("list[object]", ranges)],
                _text(value["cut"]),
                _joined(value.get("joined")),
            )
        except (AttributeError, KeyError, TypeError, ValueError, FormatError) as error:
            raise FormatError(
                f"expected the account of records in the trailer of a spill file: {error!r};"
                " nothing was published; build the interval again (in Airflow: clear the run from"
                " preprocess on)"
            ) from error


@dataclass(frozen=True)
class PreparedPart:
    """The result of a worker for its ranges.

    Attributes:
        runs: Names of the files of sorted samples, in the folder of spill files.
        quarantine: Names of the files of quarantined records, likewise.
        account: The account of the records.
        kept_bytes: Bytes in quarantine.
        used: Mask of the labels that samples got; None for a data set without uploads.
    """

    runs: list[str]
    quarantine: list[str]
    account: RecordAccount
    kept_bytes: int
    used: NDArray[np.bool_] | None = None


def _joined(value: object) -> JoinCounts | None:
    return None if value is None else JoinCounts.from_json(cast("Mapping[str, int]", value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r}")
    return value


def _items(value: object) -> list[tuple[str, Mapping[str, int]]]:
    return list(cast("Mapping[str, Mapping[str, int]]", value).items())


def _index(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"expected the index of a range, got {value!r}")
    return value
