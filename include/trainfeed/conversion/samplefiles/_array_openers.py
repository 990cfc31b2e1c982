"""Opens files of the formats that hold arrays or members: NumPy and WebDataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from trainfeed.conversion.formats import (
    VALUE,
    count_webdataset,
    fields_of_array,
    iter_npy,
    iter_npz,
    open_npz,
    read_npy_header,
    read_webdataset,
    webdataset_schema,
)
from trainfeed.conversion.samplefiles._sample_file import SampleFile, SourceOptions
from trainfeed.conversion.samplefiles._sniff import Format
from trainfeed.dataset.shards import Encoding
from trainfeed.errors import FormatError
from trainfeed.samples import Schema

__all__ = ["npy_file", "npz_file", "webdataset_file"]


def webdataset_file(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
    """Return the samples of a tar of WebDataset; for errors see ``webdataset_schema``."""
    schema = webdataset_schema(path) if options.schema is None else options.schema
    return SampleFile(
        path,
        file_format,
        schema,
        Encoding.TYPED,
        partial(read_webdataset, path, schema),
        None,
        partial(count_webdataset, path),
    )


def npy_file(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
    """Return the rows of an array of NumPy; for errors see ``read_npy_header``."""
    header = read_npy_header(path)
    found = Schema(fields_of_array(VALUE, header, str(path)))
    schema = _schema_of_arrays(
        path, found, options.schema, has_names=header.dtype.names is not None
    )
    blocks = partial(iter_npy, path, schema.fields)
    return _array_file(path, file_format, schema, blocks, header.num_rows)


def npz_file(path: Path, file_format: Format, options: SourceOptions) -> SampleFile:
    """Return the rows of an archive of NumPy; for errors see ``open_npz``."""
    with open_npz(path) as (_, columns):
        schema, num_rows = columns.schema, columns.num_rows
    _schema_of_arrays(path, schema, options.schema, has_names=True)
    return _array_file(path, file_format, schema, partial(iter_npz, path), num_rows)


def _schema_of_arrays(
    path: Path, found: Schema, wanted: Schema | None, *, has_names: bool
) -> Schema:
    """Return the schema of arrays; a single array without a name takes the name in ``wanted``."""
    if wanted is not None and not has_names and len(wanted.fields) == 1:
        found = Schema((replace(found.fields[0], name=wanted.fields[0].name),))
    if wanted is not None and wanted != found:
        raise FormatError(
            f"expected the schema {wanted.to_json()}, the file has {found.to_json()}",
            path=str(path),
        )
    return found


def _array_file(
    path: Path,
    file_format: Format,
    schema: Schema,
    blocks: Callable[[], Iterator[Mapping[str, Any]]],
    num_rows: int,
) -> SampleFile:
    def samples() -> Iterator[Any]:
        for block in blocks():
            # As Python str and bytes: those of numpy have a fixed width.
            columns = [
                block[field.name].tolist() if field.is_text else block[field.name]
                for field in schema
            ]
            for values in zip(*columns, strict=True):
                yield dict(zip(schema.names, values, strict=True))

    return SampleFile(
        path,
        file_format,
        schema,
        Encoding.TYPED,
        samples,
        blocks if schema.is_fixed else None,
        lambda: num_rows,
    )
