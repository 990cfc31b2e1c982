"""A draft of the schema for records that have types: rows of files, or values with a schema.

Types are those that a build reads, so that a function for the draft gets the values that were seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from trainfeed.conversion.arrow import ORC_MAGIC
from trainfeed.conversion.foreign_input import open_input
from trainfeed.conversion.schema_draft import (
    DraftColumn,
    SchemaDraft,
    SeenColumn,
    draft_columns,
    require_records,
)
from trainfeed.core.datacenters import local_source
from trainfeed.errors import FormatError
from trainfeed.files import FilePath
from trainfeed.files.stores import Location
from trainfeed.preprocessing.source_record import FIELDS
from trainfeed.sources.column_files import ColumnRange, column_layout, iter_columns

_MAGICS: Final = {b"PAR1": "parquet", b"ARROW1": "arrow", ORC_MAGIC: "orc", b"Obj\x01": "avro"}
_HEAD_BYTES: Final = 8
_MOST_BYTES: Final = 64 << 20


def column_format_of(path: FilePath) -> str | None:
    """Return the format of a file of columns, as a specification names it; None for another file.

    Raises:
        NotFoundError: The file does not exist.
        StorageError: It cannot be read.
    """
    with open_input(local_source(path)) as file:
        head = file.read(_HEAD_BYTES)
    return next((name for magic, name in _MAGICS.items() if head.startswith(magic)), None)


def draft_rows(path: FilePath, file_format: str, *, rows: int) -> SchemaDraft:
    """Return a draft of the schema for the rows of a file, with the columns as a build reads them.

    Args:
        path: The file.
        file_format: ``parquet``, ``orc``, ``arrow`` or ``avro``.
        rows: How many rows are looked at, at most; fewer of rows that take much memory.

    Raises:
        FormatError: The file is damaged or cut, of another format, or has no rows.
        StorageError: It cannot be read.
    """
    local = Path(local_source(path)).absolute()
    location, size = Location.parse(str(local)), local.stat().st_size
    try:
        layout = column_layout(location, file_format, size)
    except FormatError as error:
        # The message of a build speaks of the settings of a data set, and there is none yet.
        raise FormatError(
            f"expected a file of {file_format} that is whole: {error.__cause__ or error}; name"
            " another file",
            path=str(local),
        ) from error
    types = {name: kind for name, kind in layout.types.items() if kind is not None}
    span = ColumnRange(location, file_format, size, 0, size, 0, types)
    fields = _fields(span) if types else iter(())
    total = sum(group.num_rows for group in layout.groups)
    draft = draft_records(str(path), file_format, fields, types, rows=rows, total=total)
    unread = [
        DraftColumn(name, "of a type that builds do not read", None, reason="it is not read")
        for name, kind in layout.types.items()
        if kind is None
    ]
    return replace(draft, columns=(*draft.columns, *unread))


def _fields(span: ColumnRange) -> Iterator[pa.StructArray]:
    with closing(iter_columns(span)) as batches:  # type: ignore[type-var]
        for batch in batches:
            yield batch.column(FIELDS)


def draft_records(  # noqa: PLR0913 - what a draft says of its records
    name: str,
    file_format: str,
    records: Iterable[pa.StructArray],
    types: Mapping[str, pa.DataType],
    *,
    rows: int,
    total: int,
    unread: Mapping[str, int] | None = None,
) -> SchemaDraft:
    """Return a draft of the schema for records with typed fields.

    Args:
        name: Where they are from.
        file_format: Their format.
        records: Arrays of their fields; they are read as far as they are looked at.
        types: Name → type of the fields.
        rows: How many are looked at, at most.
        total: How many there are.
        unread: What is wrong with values that are no records → number of them.

    Raises:
        FormatError: There is none.
    """
    seen = {field: SeenColumn(field, kind) for field, kind in types.items()}
    count = num_bytes = 0
    for batch in records:
        taken = batch.slice(0, rows - count)
        for field, values in zip(taken.type.names, taken.flatten(), strict=True):
            seen[field].add(values)
        count += len(taken)
        num_bytes += batch.nbytes
        if count == rows or num_bytes > _MOST_BYTES:
            break
    require_records(name, count, unread or {})
    columns = draft_columns(seen.values())
    return SchemaDraft(
        name, file_format, count, count == total, columns, unread=unread or {}, is_typed=True
    )
