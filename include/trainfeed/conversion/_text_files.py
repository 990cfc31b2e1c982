r"""JSON lines and CSV ↔ samples.

JSON lines: one JSON value a line, UTF-8. With a schema it is the object of ``JsonSamples``;
without, the value is the sample itself. CSV: a header of field names, then a row per sample.
Numbers and text stand as they are, arrays as JSON lists, bytes as base64; ``\N`` is an absent
field, and a text that begins with a backslash gets another one in front. Without a schema a row is
a dict of texts.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final, TextIO

from trainfeed.conversion._input import MAX_LINE_BYTES, iter_lines, open_input
from trainfeed.conversion._json_samples import JsonSamples, value_to_json
from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.paths import FilePath
from trainfeed.samples import Field, Schema, TypedCodec

__all__ = ["read_csv", "read_json_lines", "write_csv", "write_json_lines"]

_ABSENT: Final = "\\N"
_MAX_CELL_CHARS: Final = 8 << 20


def read_json_lines(path: FilePath, schema: Schema | None = None) -> Iterator[Any]:
    """Yield the samples of a file; blank lines are left out.

    Raises:
        FormatError: A line is no JSON, or none of the schema; says which.
    """
    check = _checker(schema)
    with open_input(path) as file:
        for line in iter_lines(file):
            if line.data is None or line.data.strip():
                try:
                    yield check(_parse(line.data))
                except (ValueError, RecursionError, SampleShapeError) as error:
                    raise FormatError(
                        f"line {line.number}: {error}",
                        path=str(path),
                        offset_bytes=line.offset_bytes,
                    ) from error


def write_json_lines(file: BinaryIO, samples: Iterable[Any], schema: Schema | None = None) -> int:
    """Write samples and return how many; with a schema they are what ``TypedCodec.decode`` gives.

    Raises:
        SampleShapeError: Without a schema, a sample is nothing that JSON can say exactly.
    """
    count = 0
    to_json = _plain_json if schema is None else JsonSamples(schema).to_json
    for sample in samples:
        file.write(json.dumps(to_json(sample), ensure_ascii=False).encode() + b"\n")
        count += 1
    return count


def read_csv(path: FilePath, schema: Schema | None = None) -> Iterator[Any]:
    """Yield the samples of a file.

    Raises:
        FormatError: There is no header, or a row is none of the schema; says which line.
    """
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_CELL_CHARS))
    check = _checker(schema)
    with open_input(path) as file, _as_text(file) as text:
        rows = csv.reader(_bounded(text), strict=True)
        try:
            header = next(rows, None)
            _check_header(header, schema)
            for cells in rows:
                if cells:
                    yield check(_row(header or [], cells, schema))
        except UnicodeError as error:
            # The line that is no text was not counted yet.
            raise FormatError(f"line {rows.line_num + 1}: {error}", path=str(path)) from error
        except (csv.Error, ValueError, RecursionError, SampleShapeError) as error:
            raise FormatError(f"line {rows.line_num}: {error}", path=str(path)) from error


def write_csv(file: TextIO, samples: Iterable[Mapping[str, Any]], schema: Schema) -> int:
    """Write samples, as ``TypedCodec.decode`` gives them, and return how many.

    Args:
        file: Opened with ``newline=""``.
        samples: The samples.
        schema: Theirs.
    """
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(schema.names)
    count = 0
    for sample in samples:
        rows.writerow([_cell(field, sample[field.name]) for field in schema])
        count += 1
    return count


def _parse(data: bytes | None) -> Any:
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
    raise ValueError(f"{constant} is no JSON; write it as text")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits:.60} is beyond float64")
    return value


def _checker(schema: Schema | None) -> Callable[[Any], Any]:
    """Return what makes a sample of a JSON value, as the codec of the schema would give it back."""
    if schema is None:
        return lambda value: value
    codec, samples = TypedCodec(schema), JsonSamples(schema)
    return lambda value: codec.decode(codec.encode(samples.from_json(value)))


def _plain_json(sample: Any) -> Any:
    if sample is None or isinstance(sample, str | bool | int):
        return sample
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


def _as_text(file: BinaryIO) -> io.TextIOWrapper:
    # A wrapper decodes ahead of the lines, so what is no UTF-8 is kept until its line comes.
    return io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")


def _bounded(text: TextIO) -> Iterator[str]:
    while line := text.readline(MAX_LINE_BYTES):
        if not line.isascii():
            _require_text(line)
        yield line


def _require_text(line: str) -> None:
    try:
        line.encode()
    except UnicodeEncodeError as error:
        byte = line[error.start].encode(errors="surrogateescape").hex()
        message = f"expected UTF-8, got the byte {byte} behind {error.start} characters"
        raise UnicodeError(message) from error


def _check_header(header: list[str] | None, schema: Schema | None) -> None:
    if header is None:
        raise ValueError("expected a header with the names of the columns, got nothing")
    if len(set(header)) < len(header):
        raise ValueError(f"expected different names of columns, got {header!r:.200}")
    if schema is not None and set(header) - set(schema.names):
        raise ValueError(f"expected the columns {list(schema.names)}, got {header!r:.200}")


def _row(header: list[str], cells: list[str], schema: Schema | None) -> dict[str, Any]:
    if len(cells) != len(header):
        raise ValueError(f"expected {len(header)} cells, got {len(cells)}")
    if schema is None:
        return dict(zip(header, cells, strict=True))
    return {name: _from_cell(schema[name], cell) for name, cell in zip(header, cells, strict=True)}


def _from_cell(field: Field, cell: str) -> Any:
    if cell == _ABSENT:
        return None
    if field.is_text:
        return cell.removeprefix("\\")
    if field.dtype == "bool" and not field.shape:
        return {"true": True, "false": False}.get(cell.lower(), cell)
    if field.shape:
        return _parse(cell.encode())
    if not cell:
        raise SampleShapeError(f"field {field.name!r}: expected a number, got an empty cell")
    try:
        return int(cell if cell.isascii() and "_" not in cell else "")
    except ValueError:
        return cell if cell in {"NaN", "Infinity", "-Infinity"} else _parse(cell.encode())


def _cell(field: Field, value: Any) -> str:
    found = value_to_json(field, value)
    if found is None:
        return _ABSENT
    if isinstance(found, str):
        is_number = not field.is_text
        return found if is_number or not found.startswith("\\") else f"\\{found}"
    return json.dumps(found)
