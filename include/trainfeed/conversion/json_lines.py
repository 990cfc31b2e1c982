"""JSON lines ↔ samples: one JSON value per line, UTF-8; and typed samples ↔ JSON values."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, BinaryIO, Final

import numpy as np

from trainfeed.conversion.foreign_input import MAX_LINE_BYTES, iter_lines, open_content
from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.files import FilePath
from trainfeed.samples import Field, Schema, TypedCodec

# --- Typed samples ↔ JSON values, for JSON lines, CSV cells and the command ``head``

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


# --- JSON lines ↔ samples: one JSON value per line, UTF-8

# A float64 needs 17 digits at most; with more, digits may be lost.
_EXACT_DIGITS: Final = 15


def read_json_lines(
    path: FilePath, schema: Schema | None = None, *, rules: ReadingRules = NEWEST
) -> Iterator[Any]:
    """Yield the samples of a file; blank lines are skipped.

    Args:
        path: The file.
        schema: Schema of the samples; None for the values themselves. Then a number with more
            digits than a float64 holds is refused, because nothing says that it may be rounded.
        rules: The rules by which numbers are read.

    Raises:
        FormatError: A line is not JSON, or does not match the schema; has the line.
    """
    check, parse = sample_checker(schema, rules), parse_json if schema else _parse_exactly
    with open_content(path) as file:
        for line in iter_lines(file):
            if line.data is None or line.data.strip():
                try:
                    yield check(parse(line.data, rules))
                except (ValueError, RecursionError, SampleShapeError) as error:
                    raise FormatError(
                        f"line {line.number}: {error}",
                        path=str(path),
                        offset_bytes=line.offset_bytes,
                    ) from error


def write_json_lines(file: BinaryIO, samples: Iterable[Any], schema: Schema | None = None) -> int:
    """Write samples, with a schema in the form of ``TypedCodec.decode``; return their number.

    Raises:
        SampleShapeError: Without a schema: JSON cannot represent a sample exactly.
    """
    count = 0
    to_json = _plain_json if schema is None else JsonSamples(schema).to_json
    for sample in samples:
        file.write(_line(to_json(sample)))
        count += 1
    return count


def _line(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        # A lone surrogate, which UTF-8 does not have: JSON can spell it.
        return json.dumps(value).encode() + b"\n"


def parse_json(data: bytes | None, rules: ReadingRules = NEWEST) -> Any:
    """Return the JSON value of a line; None stands for a line that is too long.

    The number ``-0`` is a float, because no whole number has its sign.

    Raises:
        ValueError: The line is too long, is not JSON, repeats a key, or has a number beyond
            float64.
    """
    if data is None:
        raise ValueError(f"expected at most {MAX_LINE_BYTES} bytes")
    return _parsed(data, rules, _finite)


def _parse_exactly(data: bytes | None, rules: ReadingRules) -> Any:
    """Return the JSON value of a line as ``parse_json`` does; numbers that lose digits are errors.

    Raises:
        ValueError: As of ``parse_json``; or a number has more digits than a float64 holds.
    """
    if data is None:
        return parse_json(data)
    return _parsed(data, rules, _exact)


def _parsed(data: bytes, rules: ReadingRules, number: Callable[[str], float]) -> Any:
    # A function for every whole number takes long, and is needed only for this one.
    has_minus_zero = b"-0" in data and rules is not ReadingRules.GUESSED
    return json.loads(
        data.decode(),
        object_pairs_hook=_unique,
        parse_constant=_refuse,
        parse_float=number,
        parse_int=_whole if has_minus_zero else None,
    )


def _whole(digits: str) -> int | float:
    return -0.0 if digits == "-0" else int(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON; write the value as text")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits:.60} is beyond float64")
    return value


def _exact(digits: str) -> float:
    value = _finite(digits)
    if len(digits) > _EXACT_DIGITS and Decimal(digits) != Decimal(repr(value)):
        raise ValueError(
            f"{digits:.60} has more digits than float64 holds, which would make {value!r} of it;"
            " give a schema, where float64 says that it may be rounded; or write it as text"
        )
    return value


def sample_checker(schema: Schema | None, rules: ReadingRules = NEWEST) -> Callable[[Any], Any]:
    """Return the function from a JSON value to a sample in the form of ``TypedCodec.decode``."""
    if schema is None:
        return lambda value: value
    codec, samples = TypedCodec(schema), JsonSamples(schema, rules)
    return lambda value: codec.decode(codec.encode(samples.from_json(value)))


def _plain_json(sample: Any) -> Any:
    if sample is None or isinstance(sample, str | bool | int):
        return sample
    # Finite: the difference is NaN for NaN and the infinities.
    if isinstance(sample, float) and sample - sample == 0:
        return sample
    if type(sample) is list:
        return [_plain_json(each) for each in sample]
    if type(sample) is dict and all(type(key) is str for key in sample):
        return {key: _plain_json(each) for key, each in sample.items()}
    raise SampleShapeError(
        f"expected a value that JSON has, got a {type(sample).__name__}; convert to recordio, or"
        " give a schema"
    )
