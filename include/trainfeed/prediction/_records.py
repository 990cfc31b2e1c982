"""Records to predict: read from lines or JSON, and given to preprocessing as if they had landed.

A record has the parts of a source record. Most functions read the value alone; the other parts are
given in the form ``record``.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from trainfeed.sources import LANDING_SCHEMA

__all__ = ["RawRecord", "RecordForm", "WrongRecordError", "landed", "read_json", "record_of_json"]

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
