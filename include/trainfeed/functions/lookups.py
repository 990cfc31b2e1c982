"""The lookup files of a data set: their digests, and their content as Arrow tables."""

from __future__ import annotations

import csv
import hashlib
import io
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader, FileIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, cast

import pyarrow as pa

from trainfeed.core.csv_text import CsvRows, require_names
from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import CodeChangedError, ConfigError, MemoryLimitError, NotFoundError
from trainfeed.files import open_plain
from trainfeed.files.stores import posix
from trainfeed.functions.cells import CellColumn, CellError
from trainfeed.specification import DatasetSpec

logger = logging.getLogger(__name__)

# Rows of CSV that are held as Python's texts at once.
_ROWS_AT_ONCE: Final = 65_536
_KINDS: Final = [".arrow", ".csv", ".parquet"]


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
    spec: DatasetSpec, digests: Mapping[str, str], rules: ReadingRules = NEWEST
) -> dict[str, pa.Table]:
    """Read the lookup files.

    Args:
        spec: The data set.
        digests: Lookup name → SHA-256 of its file in the plan.
        rules: The reading rules of the plan.

    Raises:
        CodeChangedError: A file is not the one of the plan.
        ConfigError: A file is missing, of an unknown kind, damaged, or has a cell that is not of
            the declared type.
        FormatError: The name is that of something else than a plain file, such as a pipe.
        MemoryLimitError: All files together are larger than a worker's memory limit.
        StorageError: A file cannot be read.
    """
    _require_room(spec)
    return {
        name: load_lookup(spec, name, digests.get(name), rules) for name in sorted(spec.lookups)
    }


def load_lookup(
    spec: DatasetSpec, name: str, digest: str | None, rules: ReadingRules = NEWEST
) -> pa.Table:
    """Read one lookup file.

    Args:
        spec: The data set.
        name: Name of the lookup.
        digest: SHA-256 of its file in the plan.
        rules: The reading rules of the plan.

    Raises:
        Exception: As ``load_lookups``, but for the limit of memory, which is not checked.
    """
    path = _path(spec, name)
    data = _read_file(spec, name)
    if hashlib.sha256(data).hexdigest() != digest:
        raise CodeChangedError(
            f"lookup {name!r} ({path}) changed since the plan was made; nothing was published; run"
            " the build again"
        )
    return _parse(path, data, spec.lookup_types.get(name, {}), rules)


def guessed_types(spec: DatasetSpec, name: str) -> dict[str, str]:
    """Return column → type of a CSV lookup as the first reading rules guess it.

    Raises:
        ConfigError: The file is missing or damaged.
        FormatError: The name is that of something else than a plain file, such as a pipe.
        StorageError: The file cannot be read.
    """
    schema = _parse(_path(spec, name), _read_file(spec, name), {}, ReadingRules.GUESSED).schema
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
    with _existing_file(spec, name) as path, open_plain(path, follow=True) as file:
        return hashlib.file_digest(cast("BufferedReader", file), "sha256").hexdigest()


def _read_file(spec: DatasetSpec, name: str) -> pa.Buffer:
    """Read a file into memory of Arrow, to which the columns of an Arrow file then refer."""
    with _existing_file(spec, name) as path, open_plain(path, follow=True, buffering=0) as file:
        data = pa.allocate_buffer(os.fstat(file.fileno()).st_size)
        room, num_bytes = memoryview(data), 0
        while count := cast("FileIO", file).readinto(room[num_bytes:]):
            num_bytes += count
        return data.slice(0, num_bytes)


def _size_bytes(spec: DatasetSpec, name: str) -> int:
    with _existing_file(spec, name) as path:
        return path.stat().st_size


@contextmanager
def _existing_file(spec: DatasetSpec, name: str) -> Iterator[Path]:
    path = _path(spec, name)
    try:
        with posix.map_errors(path):
            yield path
    except NotFoundError as error:
        raise ConfigError(
            f"lookup {name!r} of data set {spec.name!r} is missing: {path};"
            " put the file there, or take it out of 'lookups' in dataset.yaml"
        ) from error


def _parse(path: Path, data: pa.Buffer, types: Mapping[str, str], rules: ReadingRules) -> pa.Table:
    if path.suffix not in _KINDS:
        raise ConfigError(f"expected a lookup file of kind {_KINDS}, got {path.name}")
    file = pa.BufferReader(data)
    try:
        match path.suffix:
            case ".arrow":
                return pa.ipc.open_file(file).read_all()
            case ".csv" if rules is ReadingRules.GUESSED:
                from pyarrow.csv import read_csv

                return read_csv(file)
            case ".csv":
                return _read_exact_csv(path, data, types)
            case _:
                # Of all commands, few read a lookup, and of these few such a file.
                from pyarrow.parquet import read_table

                return read_table(file)
    except (pa.ArrowException, OSError, csv.Error, ValueError) as error:
        raise ConfigError(f"lookup file {path} cannot be read: {error}; replace it") from error


def _read_exact_csv(path: Path, data: pa.Buffer, types: Mapping[str, str]) -> pa.Table:
    """Return the cells as they stand: as text, or of a declared type."""
    rows = _csv_rows(data)
    try:
        columns = {name: CellColumn(name, types.get(name)) for name in _header(rows, types)}
        complete = _rows_of_width(rows, len(columns))
        while chunk := list(islice(complete, _ROWS_AT_ONCE)):
            for column, cells in zip(columns.values(), zip(*chunk, strict=True), strict=True):
                column.add(cells)
    except CellError as error:
        raise ValueError(f"line {_line_of(data, error.row)}: {error}") from error
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


def _csv_rows(data: pa.Buffer) -> CsvRows:
    file = cast("BinaryIO", pa.BufferReader(data))
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    return CsvRows(text)


def _line_of(data: pa.Buffer, row: int) -> int:
    """Return the number of the last line of a row; the header is row 0."""
    rows = _csv_rows(data)
    for _ in range(row + 1):
        next(rows)
    return rows.line


def _header(rows: CsvRows, types: Mapping[str, str]) -> list[str]:
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


def _rows_of_width(rows: CsvRows, width: int) -> Iterator[list[str]]:
    for cells in rows:
        if len(cells) != width:
            raise ValueError(f"expected {width} cells, got {len(cells)}")
        yield cells
