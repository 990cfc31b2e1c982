"""Lines of text as Arrow columns: JSON objects, and CSV by the header of its file.

A line gives its fields from its own bytes alone. What is no record of the fields that are wanted is
refused by its row, and no neighbour notices. A line of CSV that ends within quotes is not refused
alone: nobody could say which of the lines behind it begin a record.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from trainfeed.value_formats.datums import Cursor, Mask
from trainfeed.value_formats.framed import DecodedValues, Refusal, WriterSchema, datums_of
from trainfeed.value_formats.json_values import NOT_JSON, JsonSchemaFormat

# Why a line is quarantined: the codes stand in published versions, and never change.
BAD_LINE: Final = "bad_line"
BAD_VALUE: Final = "bad_value"
_NOT_JSON_CODE: Final = "not_json"

_ARROW: Final[Mapping[str, pa.DataType]] = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "str": pa.string(),
}
_JSON_TYPES: Final = {"bool": "boolean", "int64": "integer", "float64": "number", "str": "string"}


class LineReader(Protocol):
    """Reads lines as columns."""

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the fields of a line: a struct."""

    def read(self, lines: pa.Array) -> DecodedValues:
        """Return the fields of each line; null and refused for one that does not have them.

        Args:
            lines: Binary array of lines without their ends.

        Raises:
            OpenQuoteError: A line may end within quotes.
        """


class OpenQuoteError(ValueError):
    """A line of CSV has an odd number of quotes, so it may go on in the next one.

    Attributes:
        row: Its row.
    """

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row} has an odd number of quotes")
        self.row = row


# --- Lines of JSON: the reader of JSON Schema, with a schema of the wanted fields


class JsonLines:
    """Reads lines of JSON objects; a key that is missing is null, others are passed over.

    Args:
        fields: Name → ``bool``, ``int64``, ``float64`` or ``str``.
    """

    def __init__(self, fields: Mapping[str, str]) -> None:
        kinds = {name: {"type": [_JSON_TYPES[kind], "null"]} for name, kind in fields.items()}
        form = JsonSchemaFormat(json.dumps({"type": "object", "properties": kinds}))
        self.type = form.type
        self._reader = form.datum_reader(WriterSchema("JSON", "", {}))

    def read(self, lines: pa.Array) -> DecodedValues:
        """Return the fields of each line."""
        datums, start, end = datums_of(lines)
        cursor = Cursor(datums, start, end)
        column = self._reader.read(cursor)
        wrong = np.flatnonzero(cursor.why)
        refused = []
        for row in wrong.tolist():
            message = datums.messages[cursor.why[row]]
            reason = _NOT_JSON_CODE if message == NOT_JSON else BAD_VALUE
            refused.append(Refusal(row, reason, message))
        return DecodedValues(_without(column, wrong), refused)


def _without(column: pa.Array, rows: NDArray[np.int64]) -> pa.Array:
    """Return a column with null in some rows."""
    if not len(rows):
        return column
    mask = np.zeros(len(column), np.bool_)
    mask[rows] = True
    return pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)


# --- Lines of CSV

_INT: Final = r"^-?[0-9]{1,19}$"
_FLOAT: Final = r"^(?:-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:nan|-?inf(?:inity)?))$"
_BOOL: Final = r"^(?i:true|false|0|1)$"
_CELLS: Final = {"int64": _INT, "float64": _FLOAT, "bool": _BOOL}
_LIMITS: Final = (str(-(2**63)), str(2**63 - 1))
_MOST_SHOWN: Final = 40


@dataclass(frozen=True)
class CsvDialect:
    """How the cells of a line are told apart.

    Attributes:
        delimiter: The character between two cells.
        quote: The character around a cell, twice for itself; None for none.
        nulls: Cells without quotes around them that stand for no value.
    """

    delimiter: str
    quote: str | None
    nulls: Sequence[str]

    @property
    def line(self) -> str:
        """A pattern of the lines whose cells are clear."""
        cut = re.escape(self.delimiter)
        if self.quote is None:
            return r"^[^\r]*$"
        mark = re.escape(self.quote)
        cell = f"(?:{mark}(?:[^{mark}\\r]|{mark}{mark})*{mark}|[^{mark}{cut}\\r]*)"
        return f"^{cell}(?:{cut}{cell})*$"

    def cells(self, line: str) -> list[str]:
        """Return the cells of a line that has the pattern ``line``."""
        if self.quote is None:
            return line.split(self.delimiter)
        cut, mark = re.escape(self.delimiter), re.escape(self.quote)
        cell = re.compile(f"{mark}((?:[^{mark}]|{mark}{mark})*){mark}|[^{mark}{cut}]*")
        found, place = list[str](), 0
        while place <= len(line) and (match := cell.match(line, place)) is not None:
            inner = match[1]
            found.append(match[0] if inner is None else inner.replace(self.quote * 2, self.quote))
            place = match.end() + len(self.delimiter)
        return found

    def has_open_quote(self, lines: pa.Array) -> Mask:
        """Return which lines may end within quotes, bool of shape (n,)."""
        if self.quote is None:
            return np.zeros(len(lines), np.bool_)
        counts = pc.count_substring(lines, self.quote).to_numpy(zero_copy_only=False)
        found: Mask = counts % 2 == 1
        return found


def csv_header(line: bytes, dialect: CsvDialect) -> list[str]:
    """Return the names in the first line of a file.

    Args:
        line: The line without its end.
        dialect: How its cells are told apart.

    Raises:
        ValueError: It is no line of CSV in UTF-8, or names a column twice.
    """
    text = line.decode("utf-8-sig")
    column = pa.array([text])
    if dialect.has_open_quote(column)[0]:
        raise ValueError("it has an odd number of quotes")
    if not pc.match_substring_regex(column, dialect.line)[0].as_py():
        raise ValueError("its cells are not clear: quotes stand within a cell")
    names = dialect.cells(text)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"it names {', '.join(map(repr, twice))} twice")
    return names


def _parsing(dialect: CsvDialect, on_invalid: Any) -> arrow_csv.ParseOptions:
    return arrow_csv.ParseOptions(
        delimiter=dialect.delimiter,
        quote_char=dialect.quote or False,
        double_quote=True,
        escape_char=False,
        newlines_in_values=False,
        ignore_empty_lines=False,
        invalid_row_handler=on_invalid,
    )


class CsvLines:
    """Reads lines of CSV.

    Args:
        fields: Name → ``bool``, ``int64``, ``float64`` or ``str``, of columns of the header.
        header: The names of all columns, in the order of the cells.
        dialect: How cells are told apart.
    """

    def __init__(
        self, fields: Mapping[str, str], header: Sequence[str], dialect: CsvDialect
    ) -> None:
        self._fields = fields
        self._header = header
        self._dialect = dialect
        self._pattern = dialect.line
        self.type = pa.struct([(name, _ARROW[kind]) for name, kind in fields.items()])

    def read(self, lines: pa.Array) -> DecodedValues:
        """Return the fields of each line."""
        refused: dict[int, Refusal] = {}
        texts = _as_texts(lines, refused)
        is_open = self._dialect.has_open_quote(texts)
        if is_open.any():
            raise OpenQuoteError(int(np.flatnonzero(is_open)[0]))
        is_clear = pc.match_substring_regex(texts, self._pattern).to_numpy(zero_copy_only=False)
        if len(self._header) > 1:
            is_clear &= pc.utf8_length(texts).to_numpy(zero_copy_only=False) > 0
        for row in np.flatnonzero(~is_clear).tolist():
            message = "expected cells of CSV: the line is empty, or has quotes or CR within a cell"
            refused.setdefault(row, Refusal(row, BAD_LINE, message))
        rows = np.setdiff1d(np.arange(len(lines)), np.fromiter(refused, np.int64, len(refused)))
        rows, cells = self._cells(texts, rows, refused)
        columns = [
            self._typed(column, name, rows, refused)
            for name, column in zip(self._fields, cells, strict=True)
        ]
        found = pa.StructArray.from_arrays(columns, fields=list(self.type))
        if len(rows) < len(lines):
            # A row that is refused has nothing in its place.
            places = np.full(len(lines), -1)
            places[rows] = np.arange(len(rows))
            found = found.take(pa.array(places, mask=places < 0))
        return DecodedValues(found, [refused[row] for row in sorted(refused)])

    def _cells(
        self, texts: pa.Array, rows: NDArray[np.int64], refused: dict[int, Refusal]
    ) -> tuple[NDArray[np.int64], list[pa.Array]]:
        """Return the rows with as many cells as the header, and the cells of the wanted columns."""
        skipped: list[int] = []

        def skip(found: arrow_csv.InvalidRow) -> str:
            row = int(rows[found.number - 1])
            skipped.append(found.number - 1)
            message = f"expected {found.expected_columns} cells, got {found.actual_columns}"
            refused[row] = Refusal(row, BAD_LINE, message)
            return "skip"

        if not len(rows):
            return rows, [pa.array([], pa.string()) for _ in self._fields]
        data = "\n".join([*texts.take(pa.array(rows)).to_pylist(), ""]).encode()
        table = arrow_csv.read_csv(
            io.BytesIO(data),
            # One block, so that rows are counted from its begin.
            arrow_csv.ReadOptions(
                column_names=list(self._header), use_threads=False, block_size=len(data) + 1
            ),
            _parsing(self._dialect, skip),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(self._fields, pa.string()),
                include_columns=list(self._fields),
                null_values=list(self._dialect.nulls),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        rows = np.delete(rows, skipped)
        if table.num_rows != len(rows):
            raise ValueError(f"expected {len(rows)} lines of CSV to be read, got {table.num_rows}")
        return rows, [column.combine_chunks() for column in table.columns]

    def _typed(
        self, cells: pa.Array, name: str, rows: NDArray[np.int64], refused: dict[int, Refusal]
    ) -> pa.Array:
        kind = self._fields[name]
        if kind == "str":
            return cells
        is_value = pc.fill_null(pc.match_substring_regex(cells, _CELLS[kind]), fill_value=True)
        if kind == "int64":
            is_value = pc.and_(is_value, _is_int64(cells))
        values = pc.if_else(is_value, cells, pa.scalar(None, pa.string())).cast(_ARROW[kind])
        if kind == "float64":
            is_value = pc.and_(is_value, _is_held(cells, values))
        for number in np.flatnonzero(~is_value.to_numpy(zero_copy_only=False)).tolist():
            row = int(rows[number])
            shown = cells[number].as_py()[:_MOST_SHOWN]
            message = f"{name}: expected {kind}, got {shown!r}"
            refused.setdefault(row, Refusal(row, BAD_VALUE, message))
        return values


def _as_texts(lines: pa.Array, refused: dict[int, Refusal]) -> pa.Array:
    """Return lines as text; those that are no UTF-8 are refused and empty."""
    try:
        return pc.fill_null(lines.cast(pa.string()), "")
    except pa.ArrowInvalid:
        texts = [_text(row, line, refused) for row, line in enumerate(lines.to_pylist())]
        return pa.array(texts, pa.string())


def _text(row: int, line: bytes | None, refused: dict[int, Refusal]) -> str:
    try:
        return (line or b"").decode()
    except UnicodeDecodeError as error:
        refused[row] = Refusal(row, BAD_LINE, f"expected UTF-8: {error.reason}")
        return ""


def _is_int64(cells: pa.Array) -> pa.Array:
    """Return which digits are within 64 bits; true for what is null or short."""
    is_short = pc.less(pc.utf8_length(cells), len(_LIMITS[1]))
    if pc.all(is_short, min_count=0).as_py():
        return pa.array(np.ones(len(cells), np.bool_))
    held = [each is None or not _digits(each) or _is_within(each) for each in cells.to_pylist()]
    return pa.array(held, pa.bool_())


def _digits(cell: str) -> bool:
    return cell.removeprefix("-").isdecimal()


def _is_within(cell: str) -> bool:
    return int(_LIMITS[0]) <= int(cell) <= int(_LIMITS[1])


def _is_held(cells: pa.Array, values: pa.Array) -> pa.Array:
    """Return which cells are no digits beyond what float64 holds; true for null."""
    is_infinite = pc.fill_null(pc.is_inf(values), fill_value=False)
    has_digits = pc.fill_null(pc.match_substring_regex(cells, "[0-9]"), fill_value=False)
    return pc.invert(pc.and_(is_infinite, has_digits))
