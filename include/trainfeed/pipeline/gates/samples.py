"""Gates that look at every sample: accepted values, the share of one value, unique keys."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from trainfeed.core.reading_rules import ReadingRules
from trainfeed.errors import ConfigError
from trainfeed.functions import load_lookup, typed_cells
from trainfeed.pipeline.gates.result import Facts, GateResult, limited
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.quarantine import Example, plain
from trainfeed.pipeline.run_stage import measured_again
from trainfeed.pipeline.sorting.spill_files import ArrowWithTrailer
from trainfeed.pipeline.stage import Stage
from trainfeed.samples import Schema, TypedCodec, absent_rows
from trainfeed.specification import Gate
from trainfeed.specification.names import cut
from trainfeed.versions.order import Uint64s

# --- Reads the samples of a build for gates that look at every one of them


@dataclass(frozen=True)
class SampleColumns:
    """Samples of one batch of a work file.

    Attributes:
        names: Source strings, by source index.
        sources: Source index of every sample, shape (n,).
        offsets: Offset of every sample's record, shape (n,).
        columns: Field → values, as ``TypedCodec.decode_columns`` returns them.
    """

    names: Sequence[str]
    sources: NDArray[np.int32]
    offsets: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.offsets)

    def place(self, row: int) -> tuple[str, int]:
        """Return source string and offset of a sample's record."""
        return plain(self.names[self.sources[row]]), int(self.offsets[row])

    def example(self, row: int, message: str) -> Example:
        """Return a sample as an example of a message."""
        return Example(*self.place(row), message, "")


class StagedSamples:
    """The samples of a build, from the work files of ``preprocess``; can be read repeatedly.

    Args:
        stage: The stage at work.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._codec = TypedCodec(Schema.from_json(stage.plan.fields))

    def __iter__(self) -> Iterator[SampleColumns]:
        """Yield all samples, in an order that the plan determines.

        Raises:
            FormatError: A work file is damaged.
            StorageError: A work file cannot be read.
        """
        with measured_again(self._stage):
            for group in range(len(self._stage.plan.preprocess)):
                with closing(ArrowWithTrailer(self._stage.spill_file(group))) as spill:
                    for table in spill.iter_tables():
                        if len(table):
                            yield self._decoded(table)

    def _decoded(self, table: pa.Table) -> SampleColumns:
        records = table["record"].to_pylist()
        framing = b"".join(
            part for record in records for part in (len(record).to_bytes(4, "little"), record)
        )
        return SampleColumns(
            names=self._stage.plan.sources,
            sources=table["source"].to_numpy(),
            offsets=table["offset"].to_numpy(),
            columns=self._codec.decode_columns(memoryview(framing), len(records)),
        )


def shown_value(value: object) -> str:
    """Return a value of a field as short text without secrets, for messages."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return cut(plain(repr(value) if isinstance(value, str | bytes) else str(value)))


# --- Keys of samples as bytes: equal bytes for equal values of the fields, and other bytes else

_ABSENT: Final = b"\x00"
_PRESENT: Final = b"\x01"
_LENGTH_BYTES: Final = 8


def keys_of(columns: Sequence[NDArray[Any]]) -> list[bytes]:
    """Return the key of every sample.

    0.0 and -0.0 are equal, and so are all NaN. An absent value equals only an absent one.

    Args:
        columns: The fields of the key, each of shape ``(n, *S)``, or of objects: arrays, bytes,
            texts, None.
    """
    parts = [_parts(column) for column in columns]
    return parts[0] if len(parts) == 1 else [b"".join(row) for row in zip(*parts, strict=True)]


def key_hashes(keys: Sequence[bytes]) -> Uint64s:
    """Return a hash of every key, shape (n,)."""
    return np.fromiter(map(xxhash.xxh3_64_intdigest, keys), np.uint64, len(keys))


def _parts(column: NDArray[Any]) -> list[bytes]:
    """Return one column's part of every key; parts of one column are free of prefixes."""
    if column.dtype == object:
        return [_part(value) for value in column]
    rows = _bytes_of_rows(np.ma.getdata(column))
    absent = absent_rows(column).tolist()
    return [
        _ABSENT if is_absent else _PRESENT + row
        for is_absent, row in zip(absent, rows, strict=True)
    ]


def _part(value: object) -> bytes:
    if value is None:
        return _ABSENT
    if isinstance(value, np.ndarray):
        return _part(_plain_numbers(value).tobytes())
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]
    return _PRESENT + len(data).to_bytes(_LENGTH_BYTES, "little") + data


def _bytes_of_rows(column: NDArray[Any]) -> list[bytes]:
    if not len(column):
        return []
    flat = np.ascontiguousarray(_plain_numbers(column)).reshape(len(column), -1)
    width = flat.shape[1] * flat.itemsize
    data = flat.tobytes()
    return [data[start : start + width] for start in range(0, len(data), width)]


def _plain_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Replace -0.0 by 0.0, and every NaN by the same one."""
    if values.dtype.kind != "f":
        return values
    plain: NDArray[Any] = values + values.dtype.type(0)
    plain[np.isnan(plain)] = np.nan
    return plain


# --- Gates on the values of one scalar field: accepted values, and the share of one value

_MOST_EXAMPLES: Final = 2
_MOST_NAMED: Final = 5
# Other values that are counted one by one; of further ones only their number is known.
_MOST_COUNTED: Final = 1000


class AcceptedValues:
    """Counts samples whose value is not an accepted one.

    Args:
        gate: A gate ``accepted_values``.
        facts: The facts; the stage for a lookup.

    Raises:
        ConfigError: The lookup has no such column.
        CodeChangedError: The lookup is not the one of the plan.
    """

    def __init__(self, gate: Gate, facts: Facts) -> None:
        self._gate = gate
        self._field = str(gate["field"])
        values = gate.get("values")
        self._accepted = frozenset(
            _lookup_keys(gate, facts) if values is None else cast("Iterable[object]", values)
        )
        self._samples = self._others = 0
        self._counter: Counter[object] = Counter()
        self._examples: list[Example] = []

    def add(self, block: SampleColumns) -> None:
        """Look at further samples."""
        column = block.columns[self._field]
        rows = np.flatnonzero(~(_is_one_of(column, self._accepted) | _absent(column)))
        self._samples += len(block)
        self._others += len(rows)
        for value, count in _counted(column[rows]):
            if value in self._counter or len(self._counter) < _MOST_COUNTED:
                self._counter[value] += count
        for row in rows[: _MOST_EXAMPLES - len(self._examples)].tolist():
            message = f"{self._field} is {shown_value(column[row])}"
            self._examples.append(block.example(row, message))

    def result(self) -> GateResult:
        """Return the share of samples with another value."""
        share = self._others / self._samples if self._samples else 0.0
        named = ", ".join(
            f"{shown_value(value)} {count} times"
            for value, count in self._counter.most_common(_MOST_NAMED)
        )
        because = f"{self._others} of {self._samples} samples have another value"
        return GateResult(
            self._gate,
            share,
            passed=share <= float(cast("float", self._gate["max"])),
            because=f"{because}: {named}" if named else because,
            examples=self._examples,
        )


class Share:
    """Counts samples that have one value.

    Args:
        gate: A gate ``share``.
    """

    def __init__(self, gate: Gate, _: Facts) -> None:
        self._gate = gate
        self._samples = self._found = 0

    def add(self, block: SampleColumns) -> None:
        """Look at further samples."""
        column = block.columns[str(self._gate["field"])]
        is_value = _is_one_of(column, frozenset([self._gate["equals"]])) & ~_absent(column)
        self._samples += len(block)
        self._found += int(np.count_nonzero(is_value))

    def result(self) -> GateResult:
        """Return the share of samples with the value; None without samples, which passes."""
        share = self._found / self._samples if self._samples else None
        value = shown_value(self._gate["equals"])
        return limited(self._gate, share, f"{self._found} of {self._samples} samples are {value}")


def _absent(column: NDArray[Any]) -> NDArray[np.bool_]:
    if column.dtype == object:
        return np.fromiter((value is None for value in column), np.bool_, len(column))
    return absent_rows(column)


def _is_one_of(column: NDArray[Any], values: frozenset[object]) -> NDArray[np.bool_]:
    """Return True for rows that have one of some values; those of absent rows mean nothing."""
    if column.dtype == object:
        # Values of dtype bytes are compared with the UTF-8 bytes of texts.
        known = values | {value.encode() for value in values if isinstance(value, str)}
        return np.fromiter((value in known for value in column), np.bool_, len(column))
    fitting = [value for value in values if _fits(column.dtype, value)]
    return np.isin(np.ma.getdata(column), np.array(fitting, dtype=column.dtype))


def _fits(dtype: np.dtype[Any], value: object) -> bool:
    if dtype.kind == "b":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return bool(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)


def _counted(values: NDArray[Any]) -> Iterable[tuple[object, int]]:
    return Counter(np.ma.getdata(values).tolist()).items()


def _lookup_keys(gate: Gate, facts: Facts) -> Iterable[object]:
    if facts.stage is None:
        return ()
    name = str(gate["lookup"])
    plan = facts.stage.plan
    table = load_lookup(facts.stage.spec, name, plan.lookups.get(name), plan.rules)
    column = gate.get("column") or table.column_names[0]
    if column not in table.column_names:
        raise ConfigError(
            f"expected a column of lookup {gate['lookup']!r} ({', '.join(table.column_names)}), got"
            f" {column!r} in the gate accepted_values of {gate['field']}; nothing was published;"
            " correct it in dataset.yaml, then build the interval again"
        )
    found = _of_field(gate, plan, table[column]).to_pylist()
    return (value for value in found if value is not None)


def _of_field(gate: Gate, plan: Plan, column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the values of a lookup; texts, for a field of whole numbers or bools, as such."""
    (dtype,) = (str(each["dtype"]) for each in plan.fields if each["name"] == gate["field"])
    if not pa.types.is_string(column.type) or dtype in {"str", "bytes"}:
        return column
    if plan.rules is ReadingRules.GUESSED:
        return column
    try:
        return typed_cells(str(gate["lookup"]), column.to_pylist(), dtype)
    except ValueError as error:
        raise ConfigError(
            f"the lookup of gate accepted_values of {gate['field']}: {error}; nothing was"
            " published; correct the file, then build the interval again"
        ) from error


# --- The gate ``unique``: no two samples of a version have the same key

# Memory for one hash of a part: different hashes are held up to eight times while they are sorted.
_HASH_BYTES: Final = 64
# Memory for a key that is compared itself: an entry of a mapping, the key, its first place.
_KEY_BYTES: Final = 320
_HASHES: Final = 1 << 64
_MOST_KEY_BYTES: Final = 64


def unique(gate: Gate, facts: Facts) -> GateResult:
    """Measure the number of samples whose key an earlier sample has."""
    if facts.stage is None:
        return limited(gate, 0, "no samples")
    memory_bytes = facts.stage.spec.resources.task_memory_bytes * 3 // 4
    by = [str(name) for name in cast("Sequence[object]", gate["by"])]
    doubled, examples = doubled_keys(
        StagedSamples(facts.stage), by, facts.counts.samples, memory_bytes
    )
    because = f"{doubled} of {facts.counts.samples} samples have the key of another one"
    return replace(limited(gate, doubled, because), examples=examples)


def doubled_keys(
    samples: Iterable[SampleColumns], by: Sequence[str], num_samples: int, memory_bytes: int
) -> tuple[int, list[Example]]:
    """Count the samples whose key an earlier sample has.

    Args:
        samples: All samples; they are read several times.
        by: The fields of the key.
        num_samples: Number of samples.
        memory_bytes: Approximate memory to use, beside that of one block of samples.

    Returns:
        The number, and at most two examples, each with the place of the sample before it.
    """
    doubled, examples = 0, list[Example]()
    for suspects in _suspects(samples, by, num_samples, memory_bytes):
        compared = _Compared(by, suspects)
        for block in samples:
            compared.add(block)
        doubled += compared.doubled
        examples += compared.examples
    return doubled, examples[:_MOST_EXAMPLES]


def _suspects(
    samples: Iterable[SampleColumns], by: Sequence[str], num_samples: int, memory_bytes: int
) -> Iterator[Uint64s]:
    """Yield the hashes that occur more than once, as many at a time as keys fit into memory."""
    num_parts = max(1, -(-num_samples * _HASH_BYTES // memory_bytes))
    step = max(1, memory_bytes // _KEY_BYTES)
    found = np.empty(0, np.uint64)
    for part in range(num_parts):
        low, high = (_HASHES * number // num_parts for number in (part, part + 1))
        hashes = _hashes(samples, by, low, high)
        found = np.concatenate([found, _repeated(hashes, memory_bytes // _HASH_BYTES)])
        while len(found) >= step:
            yield found[:step]
            found = found[step:]
    if len(found):
        yield found


def _hashes(
    samples: Iterable[SampleColumns], by: Sequence[str], low: int, high: int
) -> Iterator[Uint64s]:
    """Yield the hashes in ``[low, high)`` of every block."""
    for block in samples:
        hashes = key_hashes(keys_of(_columns(block, by)))
        yield hashes[(hashes >= np.uint64(low)) & (hashes <= np.uint64(high - 1))]


def _repeated(parts: Iterable[Uint64s], most: int) -> Uint64s:
    """Return the hashes that occur more than once, sorted.

    Args:
        parts: All hashes.
        most: Number of hashes that wait before they are sorted into those before them.
    """
    seen = repeated = np.empty(0, np.uint64)
    waiting: list[Uint64s] = []
    for part in parts:
        waiting.append(part)
        if sum(map(len, waiting)) >= most:
            seen, repeated = _sorted_in(seen, repeated, waiting)
            waiting = []
    return _sorted_in(seen, repeated, waiting)[1]


def _sorted_in(
    seen: Uint64s, repeated: Uint64s, waiting: Sequence[Uint64s]
) -> tuple[Uint64s, Uint64s]:
    """Return all different hashes, and those that occurred more than once, both sorted."""
    hashes = np.concatenate([seen, *waiting])
    hashes.sort()
    is_first = np.ones(len(hashes), np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=is_first[1:])
    return hashes[is_first], np.union1d(repeated, hashes[~is_first])


def _columns(block: SampleColumns, by: Sequence[str]) -> list[np.ndarray[Any, Any]]:
    return [block.columns[name] for name in by]


class _Compared:
    """Compares the keys of samples whose hash is one of some.

    Args:
        by: The fields of the key.
        hashes: The hashes, sorted; at least one.
    """

    def __init__(self, by: Sequence[str], hashes: Uint64s) -> None:
        self._by = by
        self._hashes = hashes
        self._first: dict[bytes, tuple[str, int]] = {}
        self.doubled = 0
        self.examples: list[Example] = []

    def add(self, block: SampleColumns) -> None:
        """Look at further samples."""
        keys = keys_of(_columns(block, self._by))
        for row in self._rows(key_hashes(keys)):
            key = _short(keys[row])
            first = self._first.get(key)
            if first is None:
                self._first[key] = block.place(row)
                continue
            self.doubled += 1
            if len(self.examples) < _MOST_EXAMPLES:
                self.examples.append(self._example(block, row, first))

    def _rows(self, hashes: Uint64s) -> list[int]:
        """Return the rows whose hash is one of those that are compared."""
        places = np.searchsorted(self._hashes[:-1], hashes)
        return np.flatnonzero(self._hashes[places] == hashes).tolist()

    def _example(self, block: SampleColumns, row: int, first: tuple[str, int]) -> Example:
        names = zip(self._by, _columns(block, self._by), strict=True)
        key = ", ".join(f"{name} {_value(column, row)}" for name, column in names)
        return block.example(row, f"{key}, as at {first[0]} offset {first[1]}")


def _short(key: bytes) -> bytes:
    """Return a key, or the digest of a long one, so that its size is bounded."""
    return key if len(key) <= _MOST_KEY_BYTES else hashlib.sha256(key).digest()


def _value(column: np.ndarray[Any, Any], row: int) -> str:
    absent = column[row] is None or np.ma.getmaskarray(column)[row].any()
    return "absent" if absent else shown_value(column[row])
