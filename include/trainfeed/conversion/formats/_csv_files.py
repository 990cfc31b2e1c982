r"""CSV ↔ samples: a header of field names, then one row per sample.

Numbers and text are written as they are, arrays as JSON lists, bytes as base64; ``\N`` is an
absent field, and a text that begins with a backslash gets a second one in front. Without a schema
a row is a dict of texts.

A CSV file does not state its delimiter. If the options do not either, the header decides: the
delimiter is the one of comma, tab, semicolon and bar that occurs in it. A header with two of them
is refused, because either may be part of a name.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, TextIO

from trainfeed.conversion._foreign_input import MAX_LINE_BYTES, open_input
from trainfeed.conversion.formats._json_lines import parse_json, sample_checker
from trainfeed.conversion.formats._json_samples import value_to_json
from trainfeed.errors import ConfigError, FormatError, SampleShapeError
from trainfeed.paths import FilePath
from trainfeed.samples import Field, Schema
from trainfeed.thread_ties import new_lock

__all__ = ["CsvOptions", "read_csv", "with_delimiter", "write_csv"]

logger = logging.getLogger(__name__)

_ABSENT: Final = "\\N"
_MAX_CELL_CHARS: Final = 8 << 20
_DELIMITERS: Final = {",": "','", "\t": "tab", ";": "';'", "|": "'|'"}
_SPELLED: Final = {"tab": "\t", "\\t": "\t"}
_limit_lock: Final = new_lock()


@dataclass(frozen=True)
class CsvOptions:
    r"""How the text of a CSV file is read.

    Attributes:
        delimiter: One character between cells; ``tab`` and ``\t`` stand for a tab. None takes the
            one that the header shows.
        quote: One character around cells with a delimiter, a quote or an end of line.
        encoding: Encoding of the text, by its name in Python; a byte order mark is skipped.

    Raises:
        ConfigError: An attribute has another value.
    """

    delimiter: str | None = None
    quote: str = '"'
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            spelled = _SPELLED.get(self.delimiter.lower(), self.delimiter)
            object.__setattr__(self, "delimiter", spelled)
        for name, value in (("delimiter", self.delimiter), ("quote", self.quote)):
            if value is not None and (len(value) != 1 or value in "\r\n\0"):
                raise ConfigError(f"expected {name} as one character, got {value!r:.60}")
        if self.delimiter == self.quote:
            raise ConfigError(f"expected a delimiter other than the quote {self.quote!r}")
        try:
            "".encode(self.encoding)
        except (LookupError, UnicodeError) as error:
            raise ConfigError(
                f"expected an encoding of text, such as utf-8, got {self.encoding!r:.60}"
            ) from error

    @property
    def is_utf8(self) -> bool:
        """Whether the text is UTF-8, with or without a byte order mark."""
        return codecs.lookup(self.encoding).name in {"utf-8", "utf-8-sig"}


_DEFAULTS: Final = CsvOptions()


def with_delimiter(path: FilePath, options: CsvOptions, schema: Schema | None) -> CsvOptions:
    """Return the options with the delimiter of a file; logs a delimiter taken from the header.

    Raises:
        ConfigError: The header contains several delimiters.
        FormatError: The header is not text of the encoding.
    """
    if options.delimiter is not None:
        return options
    if Path(path).suffix.lower() == ".tsv":
        return replace(options, delimiter="\t")
    found = _parted(path, options)
    if schema is not None:
        known = set(schema.names)
        found = {each: names for each, names in found.items() if known.issuperset(names)} or found
    if len(found) > 1:
        shown = " and ".join(_DELIMITERS[each] for each in found)
        raise ConfigError(
            f"{path}: the header has {shown}, and either may be part of a name; name the one that"
            " separates cells: --delimiter, or CsvOptions(delimiter=…)"
        )
    delimiter = next(iter(found), ",")
    if delimiter != ",":
        logger.warning(
            "%s: %s separates the cells, as the header shows; set another one with --delimiter",
            path,
            _DELIMITERS[delimiter],
        )
    return replace(options, delimiter=delimiter)


def read_csv(
    path: FilePath, schema: Schema | None = None, *, options: CsvOptions = _DEFAULTS
) -> Iterator[Any]:
    """Yield the samples of a file.

    Args:
        path: The file.
        schema: Schema of the samples; None for dicts of text.
        options: How the text is read.

    Raises:
        FormatError: There is no header, or a row does not match the schema; has the line.
        ConfigError: The delimiter is unknown.
    """
    options, check = with_delimiter(path, options, schema), sample_checker(schema)
    with open_input(path) as file, _as_text(file, options) as text:
        rows = _Rows(_bounded(text), options, strict=True)
        try:
            header = next(rows, None)
            _check_header(header, schema)
            for cells in rows:
                if cells:
                    yield check(_row(header or [], cells, schema))
        except UnicodeError as error:
            # line_num does not count the line that could not be decoded.
            raise FormatError(f"line {rows.line_num + 1}: {error}", path=str(path)) from error
        except (csv.Error, ValueError, RecursionError, SampleShapeError) as error:
            raise FormatError(f"line {rows.line_num}: {error}", path=str(path)) from error


def write_csv(
    file: TextIO, samples: Iterable[Mapping[str, Any]], schema: Schema, *, delimiter: str = ","
) -> int:
    """Write samples, as ``TypedCodec.decode`` gives them, and return how many.

    Args:
        file: Opened with ``newline=""``.
        samples: The samples.
        schema: Schema of the samples.
        delimiter: The character between cells.
    """
    rows = csv.writer(file, lineterminator="\n", delimiter=delimiter)
    rows.writerow(schema.names)
    count = 0
    for sample in samples:
        rows.writerow([_cell(field, sample[field.name]) for field in schema])
        count += 1
    return count


def _parted(path: FilePath, options: CsvOptions) -> dict[str, list[str]]:
    """Return the delimiters that occur in the header, each with the names between them."""
    with open_input(path) as file, _as_text(file, options) as text:
        try:
            line = text.readline(MAX_LINE_BYTES)
        except UnicodeError as error:
            raise FormatError(f"line 1: {error}", path=str(path)) from error
    parted: dict[str, list[str]] = {}
    for each in _DELIMITERS:
        names: list[str] = next(_Rows([line], replace(options, delimiter=each), strict=False), [])
        if len(names) > 1:
            parted[each] = names
    return parted


class _Rows:
    """The rows of lines.

    The module ``csv`` has one limit for the cells of all readers of a process, so it is raised only
    while a row is parsed.

    Attributes:
        line_num: Number of lines that were read.
    """

    def __init__(self, lines: Iterable[str], options: CsvOptions, *, strict: bool) -> None:
        delimiter = options.delimiter or ","
        self._rows = csv.reader(lines, delimiter=delimiter, quotechar=options.quote, strict=strict)

    @property
    def line_num(self) -> int:
        return self._rows.line_num

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        with _limit_lock:
            limit = csv.field_size_limit()
            if limit >= _MAX_CELL_CHARS:
                return next(self._rows)
            csv.field_size_limit(_MAX_CELL_CHARS)
            try:
                return next(self._rows)
            finally:
                csv.field_size_limit(limit)


def _as_text(file: BinaryIO, options: CsvOptions) -> io.TextIOWrapper:
    if not options.is_utf8:
        return io.TextIOWrapper(file, encoding=options.encoding, newline="")
    # The wrapper decodes ahead of the lines. With surrogateescape invalid bytes pass, and
    # ``_require_text`` refuses them at their line.
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
        return _parsed(field, cell)
    if not cell:
        raise SampleShapeError(f"field {field.name!r}: expected a number, got an empty cell")
    try:
        return int(cell if cell.isascii() and "_" not in cell else "")
    except ValueError:
        return cell if cell in {"NaN", "Infinity", "-Infinity"} else _parsed(field, cell)


def _parsed(field: Field, cell: str) -> Any:
    """Return the number or list that a cell has as JSON."""
    try:
        return parse_json(cell.encode())
    except ValueError as error:
        what = f"{field.dtype} as a JSON list" if field.shape else field.dtype
        raise SampleShapeError(
            f"field {field.name!r}: expected {what}, got {cell!r:.60}: {error}"
        ) from error


def _cell(field: Field, value: Any) -> str:
    found = value_to_json(field, value)
    if found is None:
        return _ABSENT
    if isinstance(found, str):
        is_number = not field.is_text
        return found if is_number or not found.startswith("\\") else f"\\{found}"
    return json.dumps(found)
