"""A draft of the schema of samples, from the records of a file, with what speaks for each field."""

from __future__ import annotations

import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from trainfeed.conversion.arrow import (
    ORC_MAGIC,
    ColumnOptions,
    TableColumn,
    columns_of,
    open_batches,
)
from trainfeed.conversion.arrow_json import is_list, plain
from trainfeed.conversion.csv_files import CsvOptions, read_csv, with_delimiter
from trainfeed.conversion.foreign_input import iter_lines, open_content, open_input
from trainfeed.conversion.formats import (
    Format,
    SourceOptions,
    format_of,
    format_of_lines,
    format_of_name,
    open_sample_file,
)
from trainfeed.conversion.json_lines import parse_json
from trainfeed.core.csv_text import ABSENT
from trainfeed.core.datacenters import local_source
from trainfeed.core.printable_text import printable
from trainfeed.errors import ConfigError, FormatError
from trainfeed.files import FilePath
from trainfeed.samples import Field, Schema
from trainfeed.samples.arrow import METADATA
from trainfeed.specification.names import FIELD_NAME

# --- A draft: fields with what was seen of them, and the columns that no field can hold

DEFAULT_ROWS: Final = 10_000
ORC: Final = "orc"
_TITLES: Final = {Format.JSON_LINES: "JSON lines", Format.CSV: "CSV", ORC: "ORC", "avro": "Avro"}
_MOST_CHARS: Final = 100  # of a type or a name in a comment
_YAML_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_YAML_VALUES: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


@dataclass(frozen=True)
class DraftColumn:
    """A column of a table, or a key of JSON objects, as far as it was looked at.

    Attributes:
        name: Its name in the file.
        kind: Its type, by Arrow's name; lists of one length have it in their type.
        field: The field of samples for its values, under the name in the file if samples may have
            it; None if no type of ours can hold them.
        spec_name: Name of the field in dataset.yaml, whose names have lower-case letters only.
        reason: Why there is no field; empty with one.
        notes: What speaks for the field, or what to look at.
        absent: In how many of the records it is null or missing.
        refused: How many values are of another type than the field.
        low: The least number; None if the values are no numbers.
        high: The greatest number.
    """

    name: str
    kind: str
    field: Field | None
    spec_name: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()
    absent: int = 0
    refused: int = 0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class SchemaDraft:
    """A draft of a schema.

    Attributes:
        file: The file.
        file_format: Its format.
        records: How many records were looked at.
        is_all: Whether these are all records of the file.
        is_stated: Whether the file states this schema, so that it is no draft.
        columns: What was seen, in the order of the file.
        unread: What is wrong with lines that are no records → number of them.
        more_keys: How many further keys the objects have, beyond those that were looked at.
        csv: How the text of CSV is read; None for other formats.
        is_typed: Whether the records have fields of their own, which a function gets as they are.
    """

    file: str
    file_format: str
    records: int
    is_all: bool
    columns: tuple[DraftColumn, ...]
    is_stated: bool = False
    unread: Mapping[str, int] = field(default_factory=dict)
    more_keys: int = 0
    csv: CsvOptions | None = None
    is_typed: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields for conversions of the file; none if no column has a type of ours."""
        return tuple(each.field for each in self.columns if each.field is not None)

    def lines(self) -> Iterator[str]:
        """Yield the lines of a block of YAML that can stand below ``schema:`` of dataset.yaml."""
        for text in self._head():
            yield f"  # {text}"
        entries = {
            each.name: _entry(each.spec_name, each.field)
            for each in self.columns
            if each.field is not None
        }
        name_width = max((len(name) for name, _ in entries.values()), default=0)
        width = max((len(entry) for _, entry in entries.values()), default=0)
        for each in self.columns:
            if each.name not in entries:
                yield f"  # {_cut(each.name)}: left out: {each.reason}"
                continue
            name, entry = entries[each.name]
            renamed = [f"{_cut(json.dumps(each.name, ensure_ascii=False))} in the file"]
            notes = "; ".join([*(renamed if each.spec_name != each.name else []), *each.notes])
            line = f"  {name.ljust(name_width)} {entry.ljust(width if notes else 0)}"
            yield f"{line}  # {notes}" if notes else line
        if self.more_keys:
            yield f"  # and {self.more_keys:,} more keys, which were not looked at"

    def to_json(self) -> dict[str, Any]:
        """Return the draft as JSON; ``schema`` is that of conversions, for ``--schema``."""
        return {
            "file": self.file,
            "format": self.file_format,
            "records": self.records,
            "all": self.is_all,
            "stated": self.is_stated,
            "schema": Schema(self.fields).to_json() if self.fields else [],
            "columns": [_column_json(each) for each in self.columns],
            "unread": dict(self.unread),
            "more_keys": self.more_keys,
        }

    def _head(self) -> Iterator[str]:
        title = _TITLES.get(self.file_format, self.file_format)
        name = printable(Path(self.file).name)
        if self.is_stated:
            yield f"The schema that {name} ({title}) states."
            return
        first = "all" if self.is_all else "the first"
        more = "" if self.is_all else "; there are more, which may differ"
        yield f"A draft from {first} {self.records:,} records of {name} ({title}){more}."
        for what, number in self.unread.items():
            yield f"Lines that are {what}: {number:,}; nothing here is from them."


def _entry(name: str, described: Field) -> tuple[str, str]:
    if not _YAML_WORD.fullmatch(name) or name.lower() in _YAML_VALUES:
        name = json.dumps(name)
    shape = ", ".join("null" if each is None else str(each) for each in described.shape)
    parts = [
        f"dtype: {described.dtype}",
        *([f"shape: [{shape}]"] if shape else []),
        *(["optional: true"] if described.optional else []),
    ]
    return f"{name}:", f"{{{', '.join(parts)}}}"


def _column_json(column: DraftColumn) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.kind,
        "field": column.spec_name or None,
        "reason": column.reason,
        "notes": list(column.notes),
        "absent": column.absent,
        "refused": column.refused,
        "low": column.low,
        "high": column.high,
    }


def _cut(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _MOST_CHARS else f"{shown[:_MOST_CHARS]}…"


# --- What was seen of a column, batch by batch, and the field that follows from it

_MOST_NAME_CHARS: Final = 128
_NO_WORD: Final = re.compile(r"[^A-Za-z0-9]+")
_NEXT_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class SeenColumn:
    """What was seen of a column.

    Args:
        name: Its name in the file.
        kind: Its type.
        notes: What is known of it besides.
        refused: How many values it had that were left out.
    """

    def __init__(
        self, name: str, kind: pa.DataType, notes: Iterable[str] = (), refused: int = 0
    ) -> None:
        self.name = name
        self._kind = kind
        self._notes = tuple(notes)
        self._refused = refused
        self._records = 0
        self._absent = 0
        # The least and the greatest length of lists, for each depth.
        self._lengths: dict[int, tuple[int, int]] = {}
        self._has_null_values = False
        self._least_and_most: tuple[float, float] | None = None

    def add(self, values: pa.Array) -> None:
        """Look at the values of further records."""
        self._records += len(values)
        values = plain(values)
        self._absent += values.null_count
        depth = 0
        while is_list(values.type):
            if not pa.types.is_fixed_size_list(values.type):
                self._note_lengths(depth, pc.min_max(pc.list_value_length(values)).as_py())
            values = plain(values.flatten())
            self._has_null_values |= bool(values.null_count)
            depth += 1
        kind = values.type
        if pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind):
            self._note_range(pc.min_max(values).as_py())

    def column(self, taken: _Names) -> DraftColumn:
        """Return the column with its field, under names that were not taken."""
        kind = self._seen_kind(self._kind)
        without = DraftColumn(self.name, _cut(str(kind)), None, absent=self._absent)
        if reason := self._reason(kind):
            return replace(without, reason=reason)
        try:
            (found,) = columns_of(
                pa.schema([pa.field(taken.of_sample(self.name), kind, self._absent > 0)]),
                lambda: None,
                ColumnOptions(),
            )
        except ConfigError:
            return replace(without, reason=f"a sample cannot hold {_cut(str(kind))}")
        low, high = self._least_and_most or (None, None)
        notes = (*self._notes, *self._field_notes(found))
        named = replace(without, field=found.field, spec_name=taken.of_spec(self.name))
        return replace(named, notes=notes, low=low, high=high, refused=self._refused)

    def _note_lengths(self, depth: int, found: Mapping[str, int | None]) -> None:
        if found["min"] is None or found["max"] is None:
            return
        least, most = self._lengths.get(depth, (found["min"], found["max"]))
        self._lengths[depth] = min(least, found["min"]), max(most, found["max"])

    def _note_range(self, found: Mapping[str, float | None]) -> None:
        low, high = found["min"], found["max"]
        if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
            return
        least, most = self._least_and_most or (low, high)
        self._least_and_most = min(least, low), max(most, high)

    def _seen_kind(self, kind: pa.DataType, depth: int = 0) -> pa.DataType:
        """Return the type in which lists that had one length have it."""
        if not is_list(kind):
            return kind
        inner = self._seen_kind(kind.value_type, depth + 1)
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(inner, kind.list_size)
        least, most = self._lengths.get(depth, (0, 0))
        return pa.list_(inner, most) if least == most > 0 else pa.list_(inner)

    def _reason(self, kind: pa.DataType) -> str:
        if self._absent == self._records:
            return "null in every record that was seen"
        if self._has_null_values:
            return f"a sample cannot hold lists with nulls in them ({_cut(str(kind))})"
        return ""

    def _field_notes(self, found: TableColumn) -> Iterator[str]:
        if self._absent:
            yield f"{self._absent:,} of {self._records:,} records lack it"
        if found.is_time:
            yield f"numbers in the unit of {found.kind}"
        if 0 in self._lengths and found.field.shape:
            least, most = self._lengths[0]
            yield f"each has {most} values" if least == most else f"{least} to {most} values"


class _Names:
    """Names for the fields of columns, each used once: in samples, and in dataset.yaml."""

    def __init__(self) -> None:
        self._of_samples: set[str] = set()
        self._of_spec: set[str] = set()

    def of_sample(self, column: str) -> str:
        """Return the name of a column if samples may have it, else one like it."""
        try:
            Field(column, "str")
        except ConfigError:
            column = _words(column)
        return _unused(column, self._of_samples)

    def of_spec(self, column: str) -> str:
        """Return the name of a column if dataset.yaml may have it, else one like it."""
        return _unused(column if FIELD_NAME.fullmatch(column) else _words(column), self._of_spec)


def _words(column: str) -> str:
    """Return the words of a name, as in ``user_id`` for ``userId`` and ``User Id``."""
    words = _NO_WORD.sub("_", _NEXT_WORD.sub("_", column)).strip("_").lower()
    return (words if words[:1].isalpha() else f"field_{words}".strip("_"))[:_MOST_NAME_CHARS]


def _unused(name: str, taken: set[str]) -> str:
    numbered = (f"{name[: _MOST_NAME_CHARS - 8]}_{number}" for number in count(2))
    found = next(each for each in chain([name], numbered) if each not in taken)
    taken.add(found)
    return found


# --- The records of a file: those of tables in batches, those of texts with inferred types

# Values of Python take ten times the memory of their text.
_MOST_TEXT_BYTES: Final = 32 << 20
_MOST_TABLE_BYTES: Final = 64 << 20
_MOST_KEYS: Final = 1000
# The share of values of one type from which on the others count as mistakes.
_LEAST_USUAL: Final = 0.95
_HEAD_BYTES: Final = 512
_TABLES: Final = frozenset({Format.PARQUET.value, Format.ARROW.value, ORC})
_NO_JSON: Final = "not JSON"
_NO_OBJECT: Final = "no JSON object"
_OTHER: Final = "name another file"
_KINDS: Final = {
    bool: "true or false", int: "whole numbers", float: "numbers", str: "text", list: "lists",
    dict: "objects",
}  # fmt: skip
_OF_ONE_KIND: Final = {int: " beyond 64 bits", str: " that is no UTF-8"}


def draft_schema(
    path: FilePath,
    *,
    rows: int = DEFAULT_ROWS,
    file_format: str | None = None,
    csv: CsvOptions | None = None,
) -> SchemaDraft:
    """Return a draft of the schema for the records of a file.

    JSON lines and CSV may be compressed, by any compression that logs may have. A file that states
    its schema, such as RecordIO of a version, gives that.

    Args:
        path: The file.
        rows: How many records are looked at, at most; fewer of records that take much memory.
        file_format: ``jsonl``, ``csv``, ``parquet``, ``arrow``, ``orc`` or another format of files;
            None takes that of the content or of the name.
        csv: How the text of CSV is read.

    Raises:
        ConfigError: The format is unknown, or its files neither state nor show a schema.
        FormatError: The file is damaged, or no line of it is a record.
        NotFoundError: The file does not exist.
    """
    found = _format(path, file_format)
    local = Path(local_source(path))
    if found in _TABLES:
        return _of_table(local, found, rows)
    if found == Format.JSON_LINES:
        return _of_json_lines(local, rows)
    if found == Format.CSV:
        return _of_csv(local, rows, csv or CsvOptions())
    return _stated(local, Format(found))


def _format(path: FilePath, asked: str | None) -> str:
    if asked is not None:
        if asked not in {*Format, ORC}:
            raise ConfigError(f"expected a format of {', '.join([*Format, ORC])}, got {asked!r}")
        return asked
    with open_input(local_source(path)) as file:
        if file.read(len(ORC_MAGIC)) == ORC_MAGIC:
            return ORC
    local = Path(local_source(path))
    named = format_of_lines(local) or format_of_name(local)
    with open_content(local_source(path)) as content:
        head = content.read(_HEAD_BYTES)
    if (
        named in {None, Format.JSON_LINES}
        and head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
    ):
        return Format.JSON_LINES
    return format_of(path)


def _stated(path: Path, file_format: Format) -> SchemaDraft:
    opened = open_sample_file(path, SourceOptions(file_format=file_format))
    if opened.schema is None:
        raise ConfigError(
            f"{path}: expected a file that states or shows a schema, got {file_format} without one;"
            " a schema is drafted from JSON lines, CSV, Parquet, Arrow and ORC"
        )
    names = _Names()
    columns = tuple(
        DraftColumn(each.name, str(each), each, names.of_spec(each.name)) for each in opened.schema
    )
    return SchemaDraft(str(path), file_format, 0, False, columns, is_stated=True)


def _of_table(path: Path, file_format: str, rows: int) -> SchemaDraft:
    with open_batches(path) as (schema, batches):
        if METADATA in (schema.metadata or {}):
            return _stated(path, Format(file_format))
        seen = [SeenColumn(each.name, each.type) for each in schema]
        records = num_bytes = 0
        is_all = True
        for batch in batches:
            if records == rows or num_bytes > _MOST_TABLE_BYTES:
                is_all = False
                break
            # Arrow trusts offsets and lengths in a file: damaged ones would crash the process.
            batch.validate(full=True)
            taken = batch.slice(0, rows - records)
            for column, values in zip(seen, taken.columns, strict=True):
                column.add(values)
            records += taken.num_rows
            num_bytes += batch.nbytes
            is_all = taken.num_rows == batch.num_rows
            if not is_all:
                break
    require_records(str(path), records, {})
    return SchemaDraft(str(path), file_format, records, is_all, draft_columns(seen))


def _of_json_lines(path: Path, rows: int) -> SchemaDraft:
    with open_content(path) as file:
        lines = (line.data for line in iter_lines(file))
        return draft_of_json(
            str(path), (each for each in lines if each is None or each.strip()), rows=rows
        )


def draft_of_json(name: str, values: Iterable[bytes | None], *, rows: int) -> SchemaDraft:
    """Return a draft of the schema for JSON objects, one in each value.

    Args:
        name: Where the values are from.
        values: The values; None is one that is too long, or none.
        rows: How many are looked at, at most.

    Raises:
        FormatError: None of them is an object.
    """
    objects: list[dict[str, Any]] = []
    unread: Counter[str] = Counter()
    is_all, num_bytes = True, 0
    for data in values:
        if len(objects) + unread.total() == rows or num_bytes > _MOST_TEXT_BYTES:
            is_all = False
            break
        num_bytes += len(data or b"")
        try:
            value = parse_json(data)
        except (ValueError, RecursionError):
            unread[_NO_JSON] += 1
            continue
        if isinstance(value, dict):
            objects.append(value)
        else:
            unread[_NO_OBJECT] += 1
    require_records(name, len(objects), unread)
    names = list(dict.fromkeys(chain.from_iterable(objects)))
    columns = draft_columns(
        _of_values(key, [each.get(key) for each in objects]) for key in names[:_MOST_KEYS]
    )
    more = max(0, len(names) - _MOST_KEYS)
    return SchemaDraft(name, Format.JSON_LINES, len(objects), is_all, columns, False, unread, more)


class _Mixed(SeenColumn):
    """A column whose values have no common type."""

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        super().__init__(name, pa.null())
        self._values = values

    def column(self, taken: _Names) -> DraftColumn:  # noqa: ARG002 - it gets no field
        """Return the column with the types of its values."""
        counts = Counter(type(each) for each in self._values if each is not None)
        kinds = ", ".join(f"{number:,} {_KINDS[kind]}" for kind, number in counts.most_common())
        more = ""
        if len(counts) == 1:
            more = _OF_ONE_KIND.get(next(iter(counts)), " of several types")
        absent = len(self._values) - counts.total()
        reason = f"values of one field: {kinds}{more}"
        return DraftColumn(self.name, "mixed", None, reason=reason, absent=absent)


def _of_values(name: str, values: Sequence[Any]) -> SeenColumn:
    """Return what was seen of a key, without the few values that are of another type."""
    notes, taken, refused = [], values, 0
    counts = Counter(map(_group, values))
    total = counts.total() - counts.pop(type(None), 0)
    if len(counts) > 1:
        usual, number = counts.most_common(1)[0]
        if number < _LEAST_USUAL * total:
            return _Mixed(name, values)
        taken = [each for each in values if each is None or _group(each) is usual]
        other = ", ".join(_KINDS[kind] for kind in counts if kind is not usual)
        refused = total - number
        notes = [f"{refused:,} of {total:,} values are {other}, and would be refused"]
    if (array := _array(taken)) is None:
        return _Mixed(name, values)
    seen = SeenColumn(name, array.type, notes, refused)
    seen.add(array)
    return seen


def _array(values: Sequence[Any]) -> pa.Array | None:
    """Return values as an array of their common type; None if they have none."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None


def _group(value: Any) -> type:
    """Return the type of a value; whole numbers are of that of the others."""
    return float if type(value) is int else type(value)


def _of_csv(path: Path, rows: int, options: CsvOptions) -> SchemaDraft:
    taken: list[dict[str, str]] = []
    is_all, num_chars = True, 0
    options = with_delimiter(path, options, None)
    for row in read_csv(path, options=options):
        if len(taken) == rows or num_chars > _MOST_TEXT_BYTES:
            is_all = False
            break
        taken.append(row)
        num_chars += sum(map(len, row.values()))
    require_records(str(path), len(taken), {})
    cells = {name: [row[name] for row in taken] for name in taken[0]}
    inferred = _inferred(cells)
    texts = {name: cells[name] for name in cells if pa.types.is_string(inferred[name].type)}
    seen = [
        _of_usual(name, each)
        if (each := _usual_numbers(texts.get(name, ())))
        else _of_cells(name, cells[name], inferred[name])
        for name in cells
    ]
    return SchemaDraft(str(path), Format.CSV, len(taken), is_all, draft_columns(seen), csv=options)


_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Cells that stand for nothing where the others are numbers.
_NOTHING: Final = ("", ABSENT, "null", "NULL", "NA", "N/A", "n/a", "#N/A", "<NA>")


def _inferred(cells: Mapping[str, list[str]]) -> dict[str, pa.Array]:
    """Return the columns with the types that Arrow's reader of CSV finds in all of their cells."""
    numbered = {str(number): pa.array(each) for number, each in enumerate(cells.values())}
    text = io.BytesIO()
    arrow_csv.write_csv(pa.table(numbered), text, arrow_csv.WriteOptions(quoting_style="all_valid"))
    found = arrow_csv.read_csv(
        io.BytesIO(text.getvalue()),
        # One block, because the first one decides the types.
        arrow_csv.ReadOptions(use_threads=False, block_size=text.tell() + 1),
        arrow_csv.ParseOptions(newlines_in_values=True),
        arrow_csv.ConvertOptions(null_values=_NOTHING, quoted_strings_can_be_null=True),
    )
    return {
        name: column.combine_chunks() for name, column in zip(cells, found.columns, strict=True)
    }


def _usual_numbers(cells: Sequence[str]) -> tuple[list[str], int] | None:
    """Return the cells that are numbers or nothing, and how many are not, if these are few."""
    present = [each for each in cells if each not in _NOTHING]
    numbers = sum(_NUMBER.fullmatch(each) is not None for each in present)
    if not numbers or numbers < _LEAST_USUAL * len(present):
        return None
    usual = [each for each in cells if each in _NOTHING or _NUMBER.fullmatch(each)]
    # Digits with zeros in front are text, which holds every cell.
    return None if any(map(_has_zeros_in_front, usual)) else (usual, len(cells) - len(usual))


def _of_usual(name: str, found: tuple[list[str], int]) -> SeenColumn:
    """Return what was seen of a column of numbers, without a few cells that are none."""
    cells, others = found
    return _of_cells(name, cells, _inferred({name: cells})[name], others)


def _of_cells(name: str, cells: list[str], inferred: pa.Array, refused: int = 0) -> SeenColumn:
    kind, notes = inferred.type, list[str]()
    if refused:
        every = len(cells) + refused
        notes.append(f"{refused:,} of {every:,} cells are no numbers, and would be refused")
    if pa.types.is_temporal(kind):
        notes.append(f"text like {cells[0][:32]}")
        inferred = pa.array(cells)
    elif pa.types.is_integer(kind) and any(map(_has_zeros_in_front, cells)):
        notes.append("digits with zeros in front, which a number would lose")
        inferred = pa.array(cells)
    if pa.types.is_string(inferred.type):
        inferred = _lists_of(cells) or pa.array(
            [None if each == ABSENT else each for each in cells]
        )
    seen = SeenColumn(name, inferred.type, map(printable, notes), refused)
    seen.add(inferred)
    return seen


def _has_zeros_in_front(cell: str) -> bool:
    digits = cell.lstrip("+-")
    return digits[:1] == "0" and digits[1:2].isdigit()


def _lists_of(cells: list[str]) -> pa.Array | None:
    """Return the values of cells that are JSON lists of numbers, as files of ours have them."""
    if not all(each.startswith("[") or each in _NOTHING for each in cells):
        return None
    try:
        found = pa.array(
            [None if each in _NOTHING else parse_json(each.encode()) for each in cells]
        )
    except (pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError):
        return None
    return found if is_list(found.type) else None


def draft_columns(seen: Iterable[SeenColumn]) -> tuple[DraftColumn, ...]:
    """Return columns with their fields, each under a name of its own."""
    taken = _Names()
    return tuple(each.column(taken) for each in seen)


def require_records(name: str, records: int, unread: Mapping[str, int]) -> None:
    """Refuse a draft from no records.

    Raises:
        FormatError: There are none.
    """
    if records:
        return
    is_cut = _NO_JSON in unread
    remedy = "a record is one line: jq -c . FILE makes such lines" if is_cut else _OTHER
    refused = "".join(f"; lines that are {what}: {number:,}" for what, number in unread.items())
    raise FormatError(f"expected records, got none{refused}; {remedy}", path=name)
