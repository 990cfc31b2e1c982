"""The lookup files of a data set: their digests, and their content as Arrow tables.

A file that is used is read once: the bytes that have the planned digest are those that are parsed.

Cells of CSV are text, or of the types that dataset.yaml declares; the first reading rules guess.

Every worker reads the files as a whole. Files that are together larger than the memory limit of a
worker are refused before they are read; for files that grow by decompression, the limit applies to
the worker itself.
"""

from __future__ import annotations

import csv
import hashlib
import io
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader, FileIO
from itertools import islice
from pathlib import Path
from typing import Final, cast

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from trainfeed.csv_text import CsvRows, require_names
from trainfeed.errors import CodeChangedError, ConfigError, MemoryLimitError, NotFoundError
from trainfeed.paths import open_plain
from trainfeed.reading_rules import NEWEST, ReadingRules
from trainfeed.specification import DatasetSpec
from trainfeed.storage import posix
from trainfeed.usercode._lookup_cells import CellColumn

__all__ = ["guessed_types", "load_lookup", "load_lookups", "lookup_digests"]

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
