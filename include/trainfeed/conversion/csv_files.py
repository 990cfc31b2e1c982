"""CSV ↔ samples: a header of field names, then one row per sample."""

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

from trainfeed.conversion.arrow import ColumnOptions
from trainfeed.conversion.foreign_input import MAX_LINE_BYTES, open_content
from trainfeed.conversion.json_lines import NOT_FINITE, parse_json, sample_checker, value_to_json
from trainfeed.core.csv_text import ABSENT, CsvRows, csv_row, require_names
from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import ConfigError, FormatError, SampleShapeError
from trainfeed.files import FilePath
from trainfeed.samples import Field, Schema

logger = logging.getLogger(__name__)

_DELIMITERS: Final = {",": "','", "\t": "tab", ";": "';'", "|": "'|'"}
_SPELLED: Final = {"tab": "\t", "\\t": "\t"}


@dataclass(frozen=True)
class CsvOptions:
    r"""How the text of a CSV file is read.

    Attributes:
        delimiter: One character between cells; ``tab`` and ``\t`` stand for a tab. None takes the
            one that the header shows.
        quote: One character around cells with a delimiter, a quote or an end of line.
        encoding: Encoding of the text, by its name in Python; a byte order mark is skipped.
        rules: The rules by which cells are read. The first ones read the files that an earlier
            release wrote: there a text that begins with a backslash has a second one in front.

    Raises:
        ConfigError: An attribute has another value.
    """

    delimiter: str | None = None
    quote: str = '"'
    encoding: str = "utf-8"
    rules: ReadingRules = NEWEST

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
_NO_RENAMES: Final = ColumnOptions()


def with_delimiter(
    path: FilePath,
    options: CsvOptions,
    schema: Schema | None,
    columns: ColumnOptions = _NO_RENAMES,
) -> CsvOptions:
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
        known = {*schema.names, *dict(columns.renames)}
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
    path: FilePath,
    schema: Schema | None = None,
    *,
    options: CsvOptions = _DEFAULTS,
    columns: ColumnOptions = _NO_RENAMES,
) -> Iterator[Any]:
    """Yield the samples of a file.

    Args:
        path: The file.
        schema: Schema of the samples; None for dicts of text.
        options: How the text is read.
        columns: The names of fields for columns of other names.

    Raises:
        FormatError: There is no header, or a row does not match the schema; has the line.
        ConfigError: The delimiter is unknown, or a column that is to be renamed is not there.
    """
    options = with_delimiter(path, options, schema, columns)
    check = sample_checker(schema, options.rules)
    with open_content(path) as file, _as_text(file, options) as text:
        rows = CsvRows(_bounded(text), delimiter=options.delimiter or ",", quote=options.quote)
        try:
            header = require_names(columns.field_names(require_names(next(rows, None))))
            _require_columns(header, schema)
            for cells in rows:
                yield check(_row(header, cells, schema, rows, options.rules))
        except UnicodeError as error:
            # ``line`` does not count the line that could not be decoded.
            raise FormatError(f"line {rows.line + 1}: {error}", path=str(path)) from error
        except (csv.Error, ValueError, RecursionError, SampleShapeError) as error:
            raise FormatError(f"line {rows.line}: {error}", path=str(path)) from error


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
    file.write(csv_row(schema.names, delimiter=delimiter))
    count = 0
    for sample in samples:
        cells = (_cell(field, sample[field.name]) for field in schema)
        file.write(csv_row(cells, delimiter=delimiter))
        count += 1
    return count


def _parted(path: FilePath, options: CsvOptions) -> dict[str, list[str]]:
    """Return the delimiters that occur in the header, each with the names between them."""
    with open_content(path) as file, _as_text(file, options) as text:
        try:
            line = text.readline(MAX_LINE_BYTES)
        except UnicodeError as error:
            raise FormatError(f"line 1: {error}", path=str(path)) from error
    parted: dict[str, list[str]] = {}
    for each in _DELIMITERS:
        names: list[str] = next(csv.reader([line], delimiter=each, quotechar=options.quote), [])
        if len(names) > 1:
            parted[each] = names
    return parted


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


def _require_columns(header: list[str], schema: Schema | None) -> None:
    if schema is not None and set(header) - set(schema.names):
        raise ValueError(f"expected the columns {list(schema.names)}, got {header!r:.200}")


def _row(
    header: list[str],
    cells: list[str],
    schema: Schema | None,
    rows: CsvRows,
    rules: ReadingRules,
) -> dict[str, Any]:
    if len(cells) != len(header):
        raise ValueError(f"expected {len(header)} cells, got {len(cells)}")
    if schema is None:
        return dict(zip(header, cells, strict=True))
    found: dict[str, Any] = {}
    for place, (name, cell) in enumerate(zip(header, cells, strict=True)):
        field = schema[name]
        if rules is ReadingRules.GUESSED and cell != ABSENT and field.is_text:
            found[name] = cell.removeprefix("\\")
        elif cell == ABSENT and (rules is ReadingRules.GUESSED or rows.is_bare(place)):
            _require_optional(field, rules)
            found[name] = None
        else:
            found[name] = _from_cell(field, cell, rules)
    return found


def _require_optional(field: Field, rules: ReadingRules) -> None:
    if field.dtype == "str" and not field.optional and rules is not ReadingRules.GUESSED:
        raise SampleShapeError(
            f"field {field.name!r}: expected a text, got {ABSENT}, which is an absent value; if it"
            f' is the text, write it as "{ABSENT}"; else make the field optional'
        )


def _from_cell(field: Field, cell: str, rules: ReadingRules) -> Any:
    if field.is_text:
        return cell
    if field.dtype == "bool" and not field.shape:
        return {"true": True, "false": False}.get(cell.lower(), cell)
    if field.shape:
        return _parsed(field, cell, rules)
    if not cell:
        raise SampleShapeError(f"field {field.name!r}: expected a number, got an empty cell")
    if cell in NOT_FINITE or cell == "-0":
        return cell if cell in NOT_FINITE else _parsed(field, cell, rules)
    try:
        return int(cell if cell.isascii() and "_" not in cell else "")
    except ValueError:
        return _parsed(field, cell, rules)


def _parsed(field: Field, cell: str, rules: ReadingRules) -> Any:
    """Return the number or list that a cell has as JSON."""
    try:
        return parse_json(cell.encode(), rules)
    except ValueError as error:
        what = f"{field.dtype} as a JSON list" if field.shape else field.dtype
        raise SampleShapeError(
            f"field {field.name!r}: expected {what}, got {cell!r:.60}: {error}"
        ) from error


def _cell(field: Field, value: Any) -> str | None:
    found = value_to_json(field, value)
    return found if found is None or isinstance(found, str) else json.dumps(found)
