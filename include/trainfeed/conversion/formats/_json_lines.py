"""JSON lines ↔ samples: one JSON value per line, UTF-8.

With a schema the value is an object in the form of ``JsonSamples``; without one it is the sample
itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from trainfeed.conversion._foreign_input import MAX_LINE_BYTES, iter_lines, open_input
from trainfeed.conversion.formats._json_samples import JsonSamples
from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.paths import FilePath
from trainfeed.samples import Schema, TypedCodec

__all__ = ["parse_json", "read_json_lines", "sample_checker", "write_json_lines"]


def read_json_lines(path: FilePath, schema: Schema | None = None) -> Iterator[Any]:
    """Yield the samples of a file; blank lines are skipped.

    Raises:
        FormatError: A line is not JSON, or does not match the schema; has the line.
    """
    check = sample_checker(schema)
    with open_input(path) as file:
        for line in iter_lines(file):
            if line.data is None or line.data.strip():
                try:
                    yield check(parse_json(line.data))
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
        file.write(json.dumps(to_json(sample), ensure_ascii=False).encode() + b"\n")
        count += 1
    return count


def parse_json(data: bytes | None) -> Any:
    """Return the JSON value of a line; None stands for a line that is too long.

    Raises:
        ValueError: The line is too long, is not JSON, repeats a key, or has a number beyond
            float64.
    """
    if data is None:
        raise ValueError(f"expected at most {MAX_LINE_BYTES} bytes")
    return json.loads(
        data.decode(), object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite
    )


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


def sample_checker(schema: Schema | None) -> Callable[[Any], Any]:
    """Return the function from a JSON value to a sample in the form of ``TypedCodec.decode``."""
    if schema is None:
        return lambda value: value
    codec, samples = TypedCodec(schema), JsonSamples(schema)
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
