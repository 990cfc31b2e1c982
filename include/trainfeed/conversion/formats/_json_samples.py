"""Typed samples ↔ JSON values, for JSON lines, CSV cells and the command ``head``.

Numbers are JSON numbers, with enough digits to read them back exactly. A number with a fraction is
read as the nearest one of the field's type, a whole number only if its digits come back. JSON has
no NaN and no infinities; they are the texts ``NaN``, ``Infinity`` and ``-Infinity``. Arrays are
nested lists, bytes are base64, an absent field is null.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import numpy as np

from trainfeed.errors import SampleShapeError
from trainfeed.reading_rules import NEWEST, ReadingRules
from trainfeed.samples import Field, Schema

__all__ = [
    "NOT_FINITE",
    "JsonSamples",
    "require_kept",
    "value_from_json",
    "value_to_json",
]

NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# Below this a float64 has every whole number, and no other number is rounded to one of them.
_MOST_EXACT: Final = 1 << 53


class JsonSamples:
    """Samples of one schema to JSON objects and back.

    Args:
        schema: The schema.
        rules: The rules by which numbers are read.
    """

    def __init__(self, schema: Schema, rules: ReadingRules = NEWEST) -> None:
        self._schema = schema
        self._rules = rules

    def to_json(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON object of a sample in the form of ``TypedCodec.decode``."""
        return {field.name: value_to_json(field, sample[field.name]) for field in self._schema}

    def from_json(self, value: Any) -> dict[str, Any]:
        """Return the sample of a JSON object, in the form that ``TypedCodec.encode`` takes.

        Raises:
            SampleShapeError: ``value`` is not an object, a text is not base64 or not a number, or
                a field cannot hold a whole number.
        """
        if not isinstance(value, dict):
            raise SampleShapeError(f"expected an object, got a {type(value).__name__}")
        fields = {field.name: field for field in self._schema}
        return {
            name: value_from_json(fields[name], each, self._rules) if name in fields else each
            for name, each in value.items()
        }


def value_to_json(field: Field, value: Any) -> Any:
    """Return the JSON value of a field's value; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if field.dtype == "bytes":
        return base64.b64encode(value).decode()
    array = np.asarray(value)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return _with_names(_floats(array).tolist())
    return _floats(array).tolist()


def value_from_json(field: Field, value: Any, rules: ReadingRules = NEWEST) -> Any:
    """Return the value of a field, given its JSON value.

    Raises:
        SampleShapeError: A text is not base64, or not the name of a number; or a field of floats
            cannot hold a whole number.
    """
    if value is None or field.dtype == "str":
        return value
    if field.dtype != "bytes":
        convert = _float_value if field.dtype.startswith("float") else _whole_value
        return _each(field, value, rules, convert)
    if not isinstance(value, str):
        raise SampleShapeError(f"field {field.name!r}: expected base64 text, got {value!r:.60}")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SampleShapeError(f"field {field.name!r}: expected base64 text: {error}") from error


def _floats(array: Any) -> Any:
    # Via the shortest digits of the dtype: 0.1 as float32 gives 0.1, not 0.10000000149011612.
    if array.dtype.kind != "f" or array.dtype == np.float64:
        return array
    return array.astype(np.str_).astype(np.float64)


def _with_names(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_names(each) for each in value]
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _each(
    field: Field,
    value: Any,
    rules: ReadingRules,
    convert: Callable[[Field, Any, ReadingRules], Any],
) -> Any:
    if isinstance(value, list):
        return [_each(field, each, rules, convert) for each in value]
    return convert(field, value, rules)


def _whole_value(field: Field, value: Any, rules: ReadingRules) -> Any:
    is_exact = not isinstance(value, float) or abs(value) < _MOST_EXACT
    if is_exact or rules is ReadingRules.GUESSED:
        return value
    raise SampleShapeError(
        f"field {field.name!r}: expected {field.dtype}, got {value!r}, which has a point or an"
        " exponent, and so may have lost digits; write a whole number with all its digits"
    )


def _float_value(field: Field, value: Any, rules: ReadingRules) -> Any:
    if isinstance(value, int) and rules is not ReadingRules.GUESSED:
        return _held_exactly(field, value)
    if not isinstance(value, str):
        return value
    if value not in NOT_FINITE:
        raise SampleShapeError(f"field {field.name!r}: expected a number, got {value!r:.60}")
    return NOT_FINITE[value]


def require_kept(schema: Schema, sample: Mapping[str, Any]) -> None:
    """Refuse whole numbers of a sample that a field of floats cannot hold.

    Raises:
        SampleShapeError: There is one.
    """
    for field in schema:
        if field.dtype.startswith("float") and field.name in sample:
            values = np.asarray(sample[field.name])
            if values.dtype.kind in "iu":
                for value in values.ravel().tolist():
                    _held_exactly(field, value)


def _held_exactly(field: Field, value: int) -> int:
    """Return a whole number for a field of floats, if its digits come back from there.

    Raises:
        SampleShapeError: They do not.
    """
    kind = np.dtype(field.dtype)
    # Every whole number up to here is a float: 2048, 16777216, 9007199254740992.
    if abs(value) <= 2 << np.finfo(kind).nmant or abs(value) > float(np.finfo(kind).max):
        return value
    held = kind.type(value)
    if int(held) != value and Decimal(str(held)) != value:
        raise SampleShapeError(
            f"field {field.name!r}: expected a number that {field.dtype} can hold, got {value},"
            f" which would become {int(held)}; give the field a type that holds it, such as int64,"
            " float64 or str"
        )
    return value
