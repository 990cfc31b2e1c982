"""Records to predict, from lines, files or JSON, and the outcome of each of them."""

from __future__ import annotations

import base64
import binascii
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa

from trainfeed.core.datacenters import local_source
from trainfeed.errors import FormatError
from trainfeed.files import open_plain
from trainfeed.sources import LANDING_SCHEMA

# --- The outcome of one record: its predictions, or the reason why there is none


class OutcomeKind(StrEnum):
    """What became of a record.

    Attributes:
        PREDICTED: The record has a prediction for each of its samples.
        FILTERED: The preprocessing function found that the record is good, but not wanted.
        REJECTED: The record is broken: it would have gone to quarantine.
        FAILED: The preprocessing function made a mistake at the record, or a prediction of the
            record is no finite number.
    """

    PREDICTED = "predicted"
    FILTERED = "filtered"
    REJECTED = "rejected"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """What became of one record.

    Attributes:
        kind: See ``OutcomeKind``.
        predictions: For each sample of the record, name → number, text, or nested lists of them.
        reason: Short code of the reason; empty for a prediction.
        message: The exact error, cut to 500 characters.
    """

    kind: OutcomeKind
    predictions: tuple[Mapping[str, Any], ...] = ()
    reason: str = ""
    message: str = ""

    @property
    def is_predicted(self) -> bool:
        """Whether there is a prediction."""
        return self.kind is OutcomeKind.PREDICTED

    def to_json(self, index: int) -> dict[str, Any]:
        """Return the row of a record.

        Args:
            index: Number of the record among those that were given, from 0 on.
        """
        if self.is_predicted:
            return {"index": index, "predictions": list(self.predictions)}
        told = {"message": self.message} if self.message else {}
        return {"index": index, self.kind.value: self.reason, **told}


@dataclass
class Counts:
    """How many records had which outcome.

    Attributes:
        kinds: Kind of outcome → number of records.
        reasons: ``kind: reason`` → number of records without a prediction.
        first_bad: Row of the first record without a prediction; None while there is none.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    first_bad: Mapping[str, Any] | None = None

    def add(self, first_index: int, outcomes: Iterable[Outcome]) -> None:
        """Count outcomes of neighbouring records, the first of number ``first_index``."""
        for index, outcome in enumerate(outcomes, start=first_index):
            self.kinds[outcome.kind.value] += 1
            if not outcome.is_predicted:
                self.reasons[f"{outcome.kind.value}: {outcome.reason}"] += 1
                self.first_bad = self.first_bad or outcome.to_json(index)

    @property
    def num_bad(self) -> int:
        """Number of records without a prediction."""
        return self.kinds.total() - self.kinds[OutcomeKind.PREDICTED.value]

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON values; every kind is there."""
        kinds = {kind.value: self.kinds[kind.value] for kind in OutcomeKind}
        return {
            "records": self.kinds.total(),
            **kinds,
            "reasons": dict(sorted(self.reasons.items())),
        }


# --- Records to predict: read from lines or JSON, and given to preprocessing as if they had landed

_NO_STAMP: Final = -1
_STAMP: Final = "expected milliseconds since 1970, from -1 to 2**63 - 1"
_NAMES: Final = frozenset({"value", "value_base64", "key", "timestamp_ms", "headers"})


class RecordForm(StrEnum):
    """The form in which records are given.

    Attributes:
        VALUE: A text or a JSON value is the value of a record.
        RECORD: A JSON object with ``value`` (text, JSON or null) or ``value_base64``, and, if
            known, ``key`` (text or null), ``timestamp_ms`` and ``headers`` (pairs of texts).
    """

    VALUE = "value"
    RECORD = "record"


class WrongRecordError(ValueError):
    """A value is no record; the message says what was expected and got, and quotes no data."""


@dataclass(frozen=True)
class RawRecord:
    """One record before its preprocessing.

    Attributes:
        value: The bytes of the record, or None for a null value.
        key: The key, or None.
        timestamp_ms: Milliseconds since 1970 UTC; -1 when the record has no stamp.
        headers: Headers in order.
    """

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = _NO_STAMP
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def num_bytes(self) -> int:
        """Bytes of value, key and headers; of the name of a header, the number of characters."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.value or b"") + len(self.key or b"") + headers


def read_json(data: bytes | str) -> Any:
    """Parse JSON strictly: no ``NaN``, no ``Infinity``.

    Raises:
        WrongRecordError: The data are no JSON.
    """
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise WrongRecordError(f"expected JSON: {error}") from error


def record_of_json(found: Any, form: RecordForm) -> RawRecord:
    """Return the record that a JSON value stands for.

    Raises:
        WrongRecordError: The value has not the form.
    """
    if form is RecordForm.VALUE:
        return RawRecord(_value(found))
    if not isinstance(found, Mapping):
        raise WrongRecordError(f"expected an object with 'value', got {_kind(found)}")
    if unknown := set(found) - _NAMES:
        raise WrongRecordError(f"expected the keys {sorted(_NAMES)}, got {len(unknown)} other keys")
    if ("value" in found) == ("value_base64" in found):
        raise WrongRecordError("expected one of 'value' and 'value_base64'")
    return RawRecord(
        _value_of(found), _text(found, "key"), _stamp(found), _headers(found.get("headers", []))
    )


def landed(records: Sequence[RawRecord]) -> pa.RecordBatch:
    """Return records as a batch of ``LANDING_SCHEMA``; offsets are their places."""
    columns: list[list[Any]] = [
        list(range(len(records))),
        [record.timestamp_ms for record in records],
        [0] * len(records),
        [record.key for record in records],
        [record.value for record in records],
        [[{"key": k, "value": v} for k, v in record.headers] for record in records],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, LANDING_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=LANDING_SCHEMA)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _value(found: Any) -> bytes | None:
    if found is None:
        return None
    # ASCII: half a character in a text stays an escape, as the client wrote it.
    return _encoded(found) if isinstance(found, str) else json.dumps(found).encode("ascii")


def _value_of(found: Mapping[str, Any]) -> bytes | None:
    if "value" in found:
        return _value(found["value"])
    try:
        return base64.b64decode(found["value_base64"], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise WrongRecordError(f"value_base64: expected base64: {error}") from error


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise WrongRecordError(f"expected text, got half a character: {error}") from error


def _text(found: Mapping[str, Any], name: str) -> bytes | None:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        raise WrongRecordError(f"{name}: expected a text or null, got {_kind(value)}")
    return None if value is None else _encoded(value)


def _stamp(found: Mapping[str, Any]) -> int:
    stamp = found.get("timestamp_ms", _NO_STAMP)
    if type(stamp) is not int:
        raise WrongRecordError(f"timestamp_ms: {_STAMP}, got {_kind(stamp)}")
    if not _NO_STAMP <= stamp < 1 << 63:
        raise WrongRecordError(f"timestamp_ms: {_STAMP}, got a whole number out of that range")
    return stamp


def _headers(found: Any) -> tuple[tuple[str, bytes | None], ...]:
    is_list = isinstance(found, list)
    if not is_list or any(not isinstance(p, list) or len(p) != 2 for p in found):
        raise WrongRecordError("headers: expected a list of pairs [name, text or null]")
    if any(not isinstance(name, str) for name, _ in found):
        raise WrongRecordError("headers: expected names that are texts")
    return tuple((name, _text({"headers": value}, "headers")) for name, value in found)


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


# --- Lines of files, or of standard input, as records; read once, in bounded memory

STANDARD_INPUT: Final = "-"
_MAX_LINE_BYTES: Final = 16 << 20
_COMPRESSED: Final = (".gz", ".zst", ".bz2", ".xz", ".zip")


def read_lines(names: Sequence[str], form: RecordForm) -> Iterator[RawRecord]:
    """Yield the record of every line, in the order of the files.

    A line ends with LF, and one CR before the LF belongs to the end; the last line may lack it. In
    the form ``value`` the bytes of a line are the value of a record; in the form ``record`` a line
    is a JSON object, see ``RecordForm``.

    Args:
        names: Paths of files; ``-`` for standard input.
        form: Form of the lines.

    Raises:
        NotFoundError: A file does not exist.
        FormatError: A line is too long, or no record of the form; a file is compressed.
        StorageError: A file cannot be read.
    """
    return chain.from_iterable(_of_file(name, form) for name in names)


def _of_file(name: str, form: RecordForm) -> Iterator[RawRecord]:
    if name.endswith(_COMPRESSED):
        raise FormatError(
            f"expected a file of plain lines, got the name {name!r}; no prediction of it was made;"
            " decompress it, such as: zcat FILE | trainfeed predict MODEL -",
            path=name,
        )
    is_input = name == STANDARD_INPUT
    opened = (
        nullcontext(sys.stdin.buffer)
        if is_input
        else open_plain(Path(local_source(name)), follow=True)
    )
    with opened as file:
        for number, line in enumerate(_lines(file, name), start=1):
            if form is RecordForm.VALUE:
                yield RawRecord(line)
                continue
            try:
                yield record_of_json(read_json(line), form)
            except WrongRecordError as error:
                raise FormatError(
                    f"line {number} is no record: {error}; no prediction of it and of later lines"
                    " was made; correct the line",
                    path=name,
                ) from error


def _lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    number = 0
    while line := file.readline(_MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > _MAX_LINE_BYTES:
            raise FormatError(
                f"line {number} is longer than {_MAX_LINE_BYTES} bytes; no prediction of it and of"
                " later lines was made; shorten it, or take it out",
                path=name,
            )
        yield line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
