"""The lookup files of a data set: their digests, and their content as Arrow tables."""

from __future__ import annotations

import csv
import hashlib
import io
import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from trainfeed.core.csv_text import CsvRows, require_names
from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import CodeChangedError, ConfigError, MemoryLimitError, NotFoundError
from trainfeed.files import open_plain
from trainfeed.files.stores import posix
from trainfeed.specification import DatasetSpec

# --- Cells of a CSV lookup as a column of a declared type; a cell of another form is refused

_WHOLE: Final = re.compile(r"-?[0-9]+")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_BOOLS: Final = {"true": True, "false": False}


def typed_cells(name: str, cells: Sequence[str], dtype: str) -> pa.Array:
    """Return the cells of a column of texts as values of a type.

    Raises:
        ValueError: A cell is not of the type.
    """
    column = CellColumn(name, dtype)
    column.add(cells)
    return column.finish()


class CellColumn:
    """A column that gets its cells part by part.

    Args:
        name: Name of the column, for messages.
        dtype: Type of the column, as in ``schema``; None for text. Then cells that are not UTF-8
            make it a column of bytes: no other type has all of its values.
    """

    def __init__(self, name: str, dtype: str | None) -> None:
        self._name = name
        self._dtype = dtype
        self._parts: list[pa.Array] = []
        self._rows = 0

    def add(self, cells: Sequence[str]) -> None:
        """Append cells; an empty one is a null, unless the column is text.

        Raises:
            ValueError: A cell is not of the type; has the row.
        """
        values = [self._value(row, cell) for row, cell in enumerate(cells, self._rows + 1)]
        self._parts.append(pa.array(values, self._kind))
        self._rows += len(cells)

    def finish(self) -> pa.Array:
        """Return the whole column."""
        whole = pa.concat_arrays([pa.array([], self._kind), *self._parts])
        if self._dtype is None:
            with suppress(pa.ArrowInvalid):
                return whole.cast(pa.string())
        return whole

    @property
    def _kind(self) -> pa.DataType:
        if self._dtype is None:
            return pa.binary()
        return pa.string() if self._dtype == "str" else pa.from_numpy_dtype(self._dtype)

    def _value(self, row: int, cell: str) -> Any:
        if self._dtype is None:
            return cell.encode(errors="surrogateescape")
        if not cell and self._dtype != "str":
            return None
        try:
            return _CONVERTERS.get(self._dtype, _number)(cell, self._dtype)
        except (ValueError, KeyError) as error:
            told = f": {error}" if isinstance(error, _CellError) else ""
            raise ValueError(
                f"row {row}, column {self._name!r}: expected {self._dtype}, as dataset.yaml says,"
                f" got {cell!r:.60}{told}; correct the cell or the type"
            ) from error


class _CellError(ValueError):
    """Why a cell of the right form has no value."""


def _text(cell: str, _: str) -> str:
    try:
        cell.encode()
    except UnicodeEncodeError as error:
        raise _CellError("the file is not UTF-8; save it as UTF-8") from error
    return cell


def _number(cell: str, dtype: str) -> int | float:
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        if not _WHOLE.fullmatch(cell):
            raise ValueError(cell)
        value, limits = int(cell), np.iinfo(kind)
        if not limits.min <= value <= limits.max:
            raise _CellError(f"it is outside {limits.min} to {limits.max}")
        return value
    if cell in _NOT_FINITE:
        return _NOT_FINITE[cell]
    if not _NUMBER.fullmatch(cell):
        raise ValueError(cell)
    with np.errstate(over="ignore"):
        found = kind.type(cell)
    if not np.isfinite(found):
        raise _CellError(f"it is beyond {np.finfo(kind).max}")
    if _WHOLE.fullmatch(cell) and int(found) != int(cell):
        raise _CellError(f"it would become {int(found)}")
    return float(found)


_CONVERTERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "str": _text,
    "bool": lambda cell, _: _BOOLS[cell.lower()],
}


# --- The lookup files of a data set: their digests, and their content as Arrow tables

logger = logging.getLogger(__name__)

# Rows of CSV that are held as Python's texts at once.
_ROWS_AT_ONCE: Final = 65_536


def lookup_digests(spec: DatasetSpec) -> dict[str, str]:
    """Return lookup name → SHA-256 of its file.

    Raises:
        ConfigError: A file is missing.
        FormatError: The name is that of something else than a plain file, such as a pipe.
        MemoryLimitError: All files together are larger than a worker's memory limit.
        StorageError: A file cannot be read.
    """
    _require_room(spec)
    return {name: _digest(spec, name) for name in sorted(spec.lookups)}


def load_lookups(
    spec: DatasetSpec, planned: Mapping[str, str], rules: ReadingRules = NEWEST
) -> dict[str, pa.Table]:
    """Read the lookup files.

    Args:
        spec: The data set.
        planned: The digests of the plan.
        rules: The reading rules of the plan.

    Raises:
        CodeChangedError: A file is not the one of the plan.
        ConfigError: A file is missing, of an unknown kind, damaged, or has a cell that is not of
            the declared type.
    """
    _require_room(spec)
    return {
        name: load_lookup(spec, name, planned.get(name), rules) for name in sorted(spec.lookups)
    }


def load_lookup(
    spec: DatasetSpec, name: str, planned: str | None, rules: ReadingRules = NEWEST
) -> pa.Table:
    """Read one lookup file; ``planned`` is its digest in the plan; raises as ``load_lookups``."""
    path = _path(spec, name)
    data = _bytes(spec, name)
    if hashlib.sha256(data).hexdigest() != planned:
        raise CodeChangedError(
            f"lookup {name!r} ({path}) changed since the plan was made; nothing was published; run"
            " the build again"
        )
    return _parsed(path, data, spec.lookup_types.get(name, {}), rules)


def guessed_types(spec: DatasetSpec, name: str) -> dict[str, str]:
    """Return column → type of a CSV lookup as the first reading rules guess it.

    Raises:
        ConfigError: The file is missing or damaged.
    """
    schema = _parsed(_path(spec, name), _bytes(spec, name), {}, ReadingRules.GUESSED).schema
    return {field.name: str(field.type) for field in schema}


def _require_room(spec: DatasetSpec) -> None:
    sizes = {name: _size_bytes(spec, name) for name in spec.lookups}
    most = spec.resources.worker_memory_bytes
    if sum(sizes.values()) > most:
        largest = max(sizes, key=sizes.__getitem__)
        raise MemoryLimitError(
            f"expected lookups of at most resources.worker_memory_bytes = {most} bytes, because"
            f" every worker holds them, got {sum(sizes.values())} bytes in data set {spec.name!r},"
            f" the largest is {largest!r} with {sizes[largest]}; nothing was read; keep the rows"
            " and columns that the function needs, or raise it in dataset.yaml"
        )


def _path(spec: DatasetSpec, name: str) -> Path:
    return spec.folder / spec.lookups[name]


def _digest(spec: DatasetSpec, name: str) -> str:
    with _found(spec, name) as path, open_plain(path, follow=True) as file:
        return hashlib.file_digest(cast("BufferedReader", file), "sha256").hexdigest()


def _bytes(spec: DatasetSpec, name: str) -> pa.Buffer:
    """Read a file into memory of Arrow, to which the columns of an Arrow file then refer."""
    with _found(spec, name) as path, open_plain(path, follow=True, buffering=0) as file:
        data = pa.allocate_buffer(os.fstat(file.fileno()).st_size)
        room, num_bytes = memoryview(data), 0
        while count := cast("FileIO", file).readinto(room[num_bytes:]):
            num_bytes += count
        return data.slice(0, num_bytes)


def _size_bytes(spec: DatasetSpec, name: str) -> int:
    with _found(spec, name) as path:
        return path.stat().st_size


@contextmanager
def _found(spec: DatasetSpec, name: str) -> Iterator[Path]:
    path = _path(spec, name)
    try:
        with posix.map_errors(path):
            yield path
    except NotFoundError as error:
        raise ConfigError(
            f"lookup {name!r} of data set {spec.name!r} is missing: {path};"
            " put the file there, or take it out of 'lookups' in dataset.yaml"
        ) from error


def _parsed(path: Path, data: pa.Buffer, types: Mapping[str, str], rules: ReadingRules) -> pa.Table:
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise ConfigError(f"expected a lookup file of kind {sorted(_READERS)}, got {path.name}")
    try:
        if reader is _read_csv and rules is not ReadingRules.GUESSED:
            return _exact_csv(path, data, types)
        return reader(pa.BufferReader(data))
    except (pa.ArrowException, OSError, csv.Error, ValueError) as error:
        raise ConfigError(f"lookup file {path} cannot be read: {error}; replace it") from error


def _read_arrow(file: pa.BufferReader) -> pa.Table:
    return pa.ipc.open_file(file).read_all()


def _read_csv(file: pa.BufferReader) -> pa.Table:
    return pyarrow.csv.read_csv(file)


def _exact_csv(path: Path, data: pa.Buffer, types: Mapping[str, str]) -> pa.Table:
    """Return the cells as they stand: as text, or of a declared type."""
    text = io.TextIOWrapper(
        io.BytesIO(data), encoding="utf-8-sig", errors="surrogateescape", newline=""
    )
    rows = CsvRows(text)
    try:
        columns = {name: CellColumn(name, types.get(name)) for name in _names(rows, types)}
        whole = _whole_rows(rows, len(columns))
        while taken := list(islice(whole, _ROWS_AT_ONCE)):
            for column, cells in zip(columns.values(), zip(*taken, strict=True), strict=True):
                column.add(cells)
    except (csv.Error, ValueError) as error:
        raise ValueError(f"line {rows.line}: {error}") from error
    found = {name: column.finish() for name, column in columns.items()}
    for name, column in found.items():
        if pa.types.is_binary(column.type):
            logger.warning(
                "lookup file %s: column %r has cells that are not UTF-8, so that the function gets"
                " bytes; save the file as UTF-8",
                path,
                name,
            )
    return pa.table(found)


def _names(rows: CsvRows, types: Mapping[str, str]) -> list[str]:
    names = require_names(next(rows, None))
    if unknown := sorted(types.keys() - set(names)):
        raise ValueError(
            f"expected columns of it in lookup_types of dataset.yaml, got {unknown}; it has {names}"
        )
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"expected names of columns in UTF-8, got {name!r:.60}; save the file as UTF-8"
            ) from error
    return names


def _whole_rows(rows: CsvRows, width: int) -> Iterator[list[str]]:
    for cells in rows:
        if len(cells) != width:
            raise ValueError(f"expected {width} cells, got {len(cells)}")
        yield cells


_READERS: Final[Mapping[str, Callable[[pa.BufferReader], pa.Table]]] = {
    ".arrow": _read_arrow,
    ".csv": _read_csv,
    ".parquet": pyarrow.parquet.read_table,
}
