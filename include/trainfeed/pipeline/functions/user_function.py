"""Calls the preprocessing function of a data set, and checks everything that it returns."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import PreprocessError
from trainfeed.functions import load_function, load_lookups
from trainfeed.pipeline.quarantine import excerpt, plain
from trainfeed.pipeline.stage import kept as kept_files
from trainfeed.preprocessing import Filtered, Record, Reject
from trainfeed.preprocessing.batch import told_rules
from trainfeed.preprocessing.source_record import FIELDS, TypedRecord, check_reason, cut_message
from trainfeed.specification import DatasetSpec

# --- Batch mode: the columns that a function gets and returns, and the account of its records

_ROW: Final = "_row"
_REJECTED: Final = "_rejected"
_MESSAGE: Final = "_message"
_FILTERED: Final = "_filtered"
_SPECIAL: Final = frozenset({_ROW, _REJECTED, _MESSAGE, _FILTERED})
_ALL: Final = slice(None)
_EXPECTED: Final = "return a pyarrow.RecordBatch with the fields of the schema and _row"

BATCH_SCHEMA: Final = pa.schema(
    [
        ("value", pa.binary()),
        ("key", pa.binary()),
        ("timestamp", pa.int64()),  # milliseconds since 1970 UTC
        ("headers", pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())]))),
        ("source", pa.dictionary(pa.int32(), pa.utf8())),
        ("offset", pa.int64()),
        (_ROW, pa.int32()),
    ]
)


class WrongBatchError(Exception):
    """The return value of a function is not one that a function may return.

    Attributes:
        row: The source record that shows it, or None when it is about the whole batch.
        remedy: Advice to the author of the function.
    """

    def __init__(self, message: str, *, row: int | None = None, remedy: str = _EXPECTED) -> None:
        super().__init__(message)
        self.row = row
        self.remedy = remedy


@dataclass(frozen=True)
class Judged:
    """The outcome of every record of a batch; rows are numbers of source records.

    Attributes:
        returned: The record batch that the function returned.
        kept: Indices of the returned rows that are samples, ordered by source record and ordinal;
            None for all rows as they are.
        rows: Source record of every sample, int64 of shape (n,), ascending.
        ordinals: Number of every sample within its record, int32 of shape (n,).
        rejected: Rows of the broken records, ascending, and per row its reason and message.
        filtered: By reason the rows of the records that are not wanted, ascending.
    """

    returned: pa.RecordBatch
    kept: NDArray[np.intp] | None
    rows: NDArray[np.int64]
    ordinals: NDArray[np.int32]
    rejected: tuple[NDArray[np.int64], list[str], list[str]]
    filtered: dict[str, NDArray[np.int64]]

    def samples(self, names: Sequence[str], part: slice = _ALL) -> pa.RecordBatch:
        """Return some columns of some samples, in their order; all at once may be too large.

        Args:
            names: The fields; those that no sample has are left out.
            part: The samples, by their index; all by default.
        """
        found = self.returned.select([n for n in names if n in self.returned.schema.names])
        if self.kept is None:
            start, stop, _ = part.indices(len(self.rows))
            return found.slice(start, stop - start)
        return found.take(pa.array(self.kept[part]))

    def all_samples(self) -> pa.RecordBatch:
        """Return all fields of all samples, in their order."""
        return self.samples([n for n in self.returned.schema.names if n not in _SPECIAL])


def source_batch(
    landed: pa.RecordBatch, source: str, rules: ReadingRules = NEWEST
) -> pa.RecordBatch:
    """Return landed records of one source as the batch that a function gets.

    The fields of records that have typed ones are its last column.
    """
    num_rows = landed.num_rows
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(num_rows, np.int32)), [source])
    columns = [landed.column(name) for name in ("value", "key", "timestamp", "headers")]
    rows = pa.array(np.arange(num_rows, dtype=np.int32))
    columns += [names, landed.column("offset"), rows]
    schema = BATCH_SCHEMA.with_metadata(told_rules(rules)) if told_rules(rules) else BATCH_SCHEMA
    if FIELDS in landed.schema.names:
        columns.append(landed.column(FIELDS))
        schema = schema.append(landed.schema.field(FIELDS))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def judge(returned: Any, names: Sequence[str], num_rows: int) -> Judged:
    """Account for every source record of a batch.

    Args:
        returned: The return value of the function.
        names: The fields of the schema. The column of a field may be missing; the samples then
            lack the field, which only an optional field allows.
        num_rows: Number of source records that the function got.

    Raises:
        WrongBatchError: The value is no record batch, has other columns, or does not account for
            every record exactly once.
    """
    _check_columns(returned, names)
    rows = _source_rows(returned, num_rows)
    reasons = {name: _texts(returned, name) for name in (_REJECTED, _FILTERED)}
    turned = {name: _is_given(column, len(rows)) for name, column in reasons.items()}
    out = turned[_REJECTED] | turned[_FILTERED]
    _check_complete(rows, out, turned[_REJECTED] & turned[_FILTERED], num_rows)
    kept, kept_rows, ordinals = in_order(rows, np.flatnonzero(~out))
    return Judged(
        returned=returned,
        kept=kept,
        rows=kept_rows,
        ordinals=ordinals,
        rejected=_rejected(returned, rows, reasons[_REJECTED], turned[_REJECTED]),
        filtered=_filtered(rows, reasons[_FILTERED], turned[_FILTERED]),
    )


def _check_columns(returned: Any, names: Sequence[str]) -> None:
    if not isinstance(returned, pa.RecordBatch):
        raise WrongBatchError(f"returned a {type(returned).__name__}")
    found = returned.schema.names
    if len(set(found)) < len(found):
        raise WrongBatchError(f"returned a column twice: {found}")
    if unknown := sorted(set(found) - _SPECIAL - set(names)):
        raise WrongBatchError(
            f"returned the columns {unknown}, the schema has {list(names)}",
            remedy="leave them out, or add them to the schema in dataset.yaml",
        )
    if _ROW not in found:
        raise WrongBatchError(f"returned no column {_ROW}, got {found}")


def _source_rows(returned: pa.RecordBatch, num_rows: int) -> NDArray[np.int64]:
    column = returned.column(_ROW)
    if not pa.types.is_integer(column.type) or column.null_count:
        raise WrongBatchError(
            f"returned {_ROW} as {column.type} with {column.null_count} nulls, expected integers"
            " without nulls"
        )
    rows: NDArray[np.int64] = column.to_numpy().astype(np.int64)
    wrong = np.flatnonzero((rows < 0) | (rows >= num_rows))
    if len(wrong):
        raise WrongBatchError(
            f"returned {_ROW} {rows[wrong[0]]} in row {wrong[0]}, it got the rows 0 to"
            f" {num_rows - 1}",
            remedy=f"pass {_ROW} on from the batch",
        )
    return rows


def _texts(returned: pa.RecordBatch, name: str) -> pa.Array | None:
    if name not in returned.schema.names:
        return None
    column = returned.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise WrongBatchError(
            f"returned {name} as {column.type}, expected utf8 with nulls",
            remedy="give a reason as text, and null to records that are kept",
        )
    return column.cast(pa.utf8())


def _is_given(column: pa.Array | None, length: int) -> NDArray[np.bool_]:
    if column is None or column.null_count == length:
        return np.zeros(length, dtype=bool)
    given: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return given


def _check_complete(
    rows: NDArray[np.int64], out: NDArray[np.bool_], both: NDArray[np.bool_], num_rows: int
) -> None:
    """Raise unless every source record is kept, or turned down exactly once."""
    if both.any():
        row = int(rows[np.flatnonzero(both)[0]])
        raise WrongBatchError(
            "gave a record a reason to reject it and a reason to filter it",
            row=row,
            remedy="choose one",
        )
    # Returned rows per source record: at least one, and exactly one for a record turned down.
    counts = np.bincount(rows, minlength=num_rows)
    lost = np.flatnonzero(counts == 0)
    if len(lost):
        raise WrongBatchError(
            f"lost {len(lost)} of {num_rows} records: they have no row in the returned batch",
            row=int(lost[0]),
            remedy=f"return a row with a reason in {_FILTERED} or {_REJECTED} for each of them",
        )
    if not out.any():
        return
    outs = np.bincount(rows[out], minlength=num_rows)
    again = np.flatnonzero((outs > 0) & (counts > 1))
    if len(again):
        raise WrongBatchError(
            f"rejected or filtered a record and returned {counts[again[0]]} rows of it",
            row=int(again[0]),
            remedy="return one row for a record that is turned down",
        )


def in_order(
    rows: NDArray[np.int64], kept: NDArray[np.intp]
) -> tuple[NDArray[np.intp] | None, NDArray[np.int64], NDArray[np.int32]]:
    """Return the rows to take (None for all as they are), their source records and ordinals."""
    kept_rows = rows[kept]
    steps = np.diff(kept_rows)
    if (steps > 0).all():
        whole = len(kept) == len(rows)
        return None if whole else kept, kept_rows, np.zeros(len(kept), dtype=np.int32)
    if (steps < 0).any():
        order = np.argsort(kept_rows, kind="stable")
        kept, kept_rows = kept[order], kept_rows[order]
        steps = np.diff(kept_rows)
    # The ordinal of a row is its distance from the first row of its source record.
    starts = np.flatnonzero(np.concatenate([[True], steps > 0]))
    lengths = np.diff(np.append(starts, len(kept)))
    ordinals = np.arange(len(kept)) - np.repeat(starts, lengths)
    return kept, kept_rows, ordinals.astype(np.int32)


def _rejected(
    returned: pa.RecordBatch,
    rows: NDArray[np.int64],
    reasons: pa.Array | None,
    turned: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], list[str], list[str]]:
    if reasons is None or not turned.any():
        return np.empty(0, dtype=np.int64), [], []
    places = np.flatnonzero(turned)
    # In order of source records, which is the order of the quarantine.
    places = places[np.argsort(rows[places])]
    messages = _texts(returned, _MESSAGE)
    texts = [None] * len(places) if messages is None else messages.take(places).to_pylist()
    checked = [_checked(reason) for reason in reasons.take(pa.array(places)).to_pylist()]
    return rows[places], checked, [cut_message(text or "") for text in texts]


def _filtered(
    rows: NDArray[np.int64], reasons: pa.Array | None, turned: NDArray[np.bool_]
) -> dict[str, NDArray[np.int64]]:
    if reasons is None or not turned.any():
        return {}
    # Each distinct reason has a code; rows without a reason get -1.
    column = reasons.dictionary_encode()
    codes = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False)
    return {
        _checked(reason): np.sort(rows[codes == code])
        for code, reason in enumerate(column.dictionary.to_pylist())
    }


def _checked(reason: str) -> str:
    try:
        return check_reason(reason)
    except ValueError as error:
        raise WrongBatchError(
            f"gave a wrong reason: {error}", remedy="use a short code like 'not_json'"
        ) from error


# --- Calls the preprocessing function of a data set, and checks everything that it returns

_MOST_CHARS: Final = 500
_FORKED: Final = "forked, and the child returned from it"
_FORK_REMEDY: Final = "end the child with os._exit inside the function, or start a subprocess"

# One entry more in the child of each fork by Python: a look takes a tenth of ``os.getpid``.
_forks: Final[list[None]] = []
os.register_at_fork(after_in_child=lambda: _forks.append(None))


def _with_parameters(spec: DatasetSpec, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the parameters of its specification as its third argument."""
    if not spec.preprocess.parameters:
        return function
    parameters = MappingProxyType(dict(spec.preprocess.parameters))
    return lambda records, lookups: function(records, lookups, parameters)


class SampleFunction(Protocol):
    """A function from records to samples, as modes call it; see ``UserFunction``."""

    def call(self, record: Record) -> list[Mapping[str, Any]] | Filtered: ...

    def call_batch(self, batch: pa.RecordBatch) -> Judged: ...

    def refuse_fork(self, record: Record) -> None: ...

    def mistake(self, record: Record, message: str, remedy: str) -> PreprocessError: ...

    def batch_mistake(
        self, batch: pa.RecordBatch, row: int | None, message: str, remedy: str
    ) -> PreprocessError: ...


class UserFunction:
    """The preprocessing function with its lookups.

    Args:
        spec: The data set.
        code: Its code, as ``code_texts`` has read it.
        lookups: Digests of the lookup files, as planned.
        kept: What messages say about the work before the mistake; by default the files of a build.
        again: What messages say is to be done after the function was corrected.
        rules: The reading rules of the lookups.

    Raises:
        ConfigError: The function or a lookup cannot be loaded.
        CodeChangedError: A lookup file is not the one of the plan.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        code: Mapping[str, bytes],
        lookups: Mapping[str, str],
        *,
        kept: str | None = None,
        again: str = "build the interval again",
        rules: ReadingRules = NEWEST,
    ) -> None:
        entry = spec.preprocess.function
        self._function = _with_parameters(spec, load_function(spec, entry, code))
        # Read-only: a function cannot pass values from one record to the next in it.
        self._lookups = MappingProxyType(load_lookups(spec, lookups, rules))
        self._names = [field["name"] for field in spec.function_fields()]
        self._name = f"{entry} of data set {spec.name!r}"
        self._kept = kept or kept_files(spec)
        self._again = again
        self._folder = spec.folder
        self._process = os.getpid()
        self._num_forks = len(_forks)

    def call(self, record: Record) -> list[Mapping[str, Any]] | Filtered:
        """Return the samples of a record, at least one, or the reason why it is filtered.

        Raises:
            Reject: The record is broken.
            PreprocessError: The function raised, or returned something that is not allowed.
        """
        try:
            result = self._function(record, self._lookups)
        except Reject:
            raise
        except BaseException as error:
            message = self._raised(error)
            remedy = "fix the function, or raise Reject for broken records"
            raise self.mistake(record, message, remedy) from error
        if len(_forks) != self._num_forks:
            raise self.mistake(record, _FORKED, _FORK_REMEDY)
        # ``type(…) is dict`` first: nearly all functions return dicts, and the test of an abstract
        # class takes longer.
        if type(result) is dict or isinstance(result, Mapping):
            return [result]
        if isinstance(result, list) and all(isinstance(sample, Mapping) for sample in result):
            return result or Filtered("empty")
        if isinstance(result, Filtered):
            return result
        expected = "return a mapping, a list of mappings, or Filtered"
        raise self.mistake(record, f"returned a {type(result).__name__}", expected)

    def call_batch(self, batch: pa.RecordBatch) -> Judged:
        """Return the outcome of every record of a batch of ``BATCH_SCHEMA``.

        Raises:
            PreprocessError: The function raised, or returned something that is not allowed.
        """
        try:
            returned = self._function(batch, self._lookups)
        except BaseException as error:
            message = self._raised(error)
            remedy = "fix the function, or reject broken records in _rejected"
            raise self.batch_mistake(batch, None, message, remedy) from error
        if os.getpid() != self._process:
            raise self.batch_mistake(batch, None, _FORKED, _FORK_REMEDY)
        try:
            return judge(returned, self._names, batch.num_rows)
        except WrongBatchError as error:
            raise self.batch_mistake(batch, error.row, str(error), error.remedy) from error

    def refuse_fork(self, record: Record) -> None:
        """Refuse to go on in a child of any fork, also one by C code, which ``call`` does not see.

        Args:
            record: The last record that the function got.

        Raises:
            PreprocessError: This is another process than that of the constructor.
        """
        if os.getpid() != self._process:
            raise self.mistake(record, f"{_FORKED}, at an earlier record or", _FORK_REMEDY)

    def mistake(self, record: Record, message: str, remedy: str) -> PreprocessError:
        """Return the error for a mistake of the function at a record."""
        place = f"at {record.source} offset {record.offset}"
        typed = record.json() if isinstance(record, TypedRecord) and record.is_there else None
        return self._error(f"{message} {place}{_held(record.value, typed)}", remedy)

    def batch_mistake(
        self, batch: pa.RecordBatch, row: int | None, message: str, remedy: str
    ) -> PreprocessError:
        """Return the error for a mistake of the function in a batch, at ``row`` if it is known."""
        source = batch.column("source").dictionary[0]
        first, last = batch.column("offset")[0], batch.column("offset")[-1]
        place = f"in the batch of {source} offsets {first} to {last} ({batch.num_rows} rows)"
        if row is not None:
            is_typed = FIELDS in batch.schema.names
            typed = batch.column(FIELDS)[row].as_py() if is_typed else None
            held = _held(batch.column("value")[row].as_py(), typed)
            place = f"at {source} offset {batch.column('offset')[row]}, row {row} {place}{held}"
        return self._error(f"{message} {place}", remedy)

    def _raised(self, error: BaseException) -> str:
        """Return the text of an error of the function, cut if long, and its line of code."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).parent == self._folder]
        line = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
        return f"raised {type(error).__name__}: {_text_of(error)}{line}"

    def _error(self, what: str, remedy: str) -> PreprocessError:
        return PreprocessError(f"{self._name} {what}; {self._kept}; {remedy}, then {self._again}")


def _text_of(error: BaseException) -> str:
    try:
        return plain(str(error), _MOST_CHARS)
    except BaseException as again:  # noqa: BLE001 - the code of a user, which may do anything
        return f"(its text cannot be shown: __str__ raised {type(again).__name__})"


def _held(value: bytes | None, typed: Mapping[str, Any] | None) -> str:
    if value is None and typed is not None:
        value = json.dumps(typed, default=str).encode()
    return f"; the record: {excerpt(value)}"
