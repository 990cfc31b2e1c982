"""The body of a request for predictions: records in JSON, each checked by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from trainfeed.prediction._records import (
    RawRecord,
    RecordForm,
    WrongRecordError,
    read_json,
    record_of_json,
)
from trainfeed.server import Refusal

__all__ = ["Payload", "read_payload"]

_NAMES: Final = frozenset({"records", "form", "skip_bad"})
_REMEDY: Final = (
    'send {"records": [text or JSON of each record], "form": "value" or "record", "skip_bad":'
    " false or true}; the last two are optional"
)
_MAX_WRONG: Final = 8


@dataclass(frozen=True)
class Payload:
    """A request for predictions.

    Attributes:
        records: The records, at least one.
        skip_bad: Whether records without a prediction are accepted.
    """

    records: list[RawRecord]
    skip_bad: bool


def read_payload(body: bytes, max_records: int) -> Payload:
    """Read the body of a request.

    Raises:
        Refusal: 400 for a body that is no JSON; 413 for too many records; 422 for another form, and
            for values that are no records, with their numbers.
    """
    try:
        found = read_json(body)
    except WrongRecordError as error:
        raise Refusal(
            400, "NotJson", expected="a body of JSON", got=str(error), remedy=_REMEDY
        ) from error
    if not isinstance(found, dict) or not isinstance(found.get("records"), list):
        raise _wrong_form("a JSON object with a list 'records'", _kind(found))
    if unknown := set(found) - _NAMES:
        raise _wrong_form(f"the keys {sorted(_NAMES)}", f"{len(unknown)} other keys")
    records, skip_bad = found["records"], found.get("skip_bad", False)
    if not isinstance(skip_bad, bool):
        raise _wrong_form("skip_bad as true or false", _kind(skip_bad))
    if not records:
        raise _wrong_form("at least one record", "none")
    if len(records) > max_records:
        raise Refusal(
            413,
            "TooManyRecords",
            expected=f"at most {max_records} records",
            got=str(len(records)),
            remedy="send several requests; nothing of this one was predicted",
        )
    return Payload(_records(records, _form(found)), skip_bad)


def _form(found: dict[str, Any]) -> RecordForm:
    try:
        return RecordForm(found.get("form", RecordForm.VALUE))
    except ValueError:
        names = " or ".join(repr(each.value) for each in RecordForm)
        raise _wrong_form(f"form {names}", _kind(found["form"])) from None


def _records(values: list[Any], form: RecordForm) -> list[RawRecord]:
    records, wrong = [], []
    for index, value in enumerate(values):
        try:
            records.append(record_of_json(value, form))
        except WrongRecordError as error:
            wrong.append(f"record {index}: {error}")
    if wrong:
        more = f"; and {len(wrong) - _MAX_WRONG} others" if len(wrong) > _MAX_WRONG else ""
        raise _wrong_form("records", "; ".join(wrong[:_MAX_WRONG]) + more)
    return records


def _wrong_form(expected: str, got: str) -> Refusal:
    return Refusal(422, "InvalidRequest", expected=expected, got=got, remedy=_REMEDY)


def _kind(value: Any) -> str:
    return "null" if value is None else f"a value of type {type(value).__name__}"
