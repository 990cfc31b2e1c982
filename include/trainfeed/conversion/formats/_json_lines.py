"""JSON lines ↔ samples: one JSON value per line, UTF-8.

With a schema the value is an object in the form of ``JsonSamples``; without one it is the sample
itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, BinaryIO, Final

from trainfeed.conversion._foreign_input import MAX_LINE_BYTES, iter_lines, open_input
from trainfeed.conversion.formats._json_samples import JsonSamples
from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.paths import FilePath
from trainfeed.reading_rules import NEWEST, ReadingRules
from trainfeed.samples import Schema, TypedCodec

__all__ = ["parse_json", "read_json_lines", "sample_checker", "write_json_lines"]

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
    with open_input(path) as file:
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
