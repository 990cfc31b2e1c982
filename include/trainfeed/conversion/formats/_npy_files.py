"""Arrays of NumPy as samples: a file ``.npy`` is one array, whose rows are the samples.

====================================== =================================================
array                                  fields
====================================== =================================================
bool, integers, float16 to float64     ``value``, or the one name of a schema
text and bytes of fixed width          the same, without NULs at the end, as in numpy
structure, one-dimensional             one per name; each may have its own shape
any other type, Python objects too     refused
====================================== =================================================

Big-endian values are converted to the byte order of this machine. If the first dimension of an
array varies fastest (Fortran order), a block of rows is read column by column. Files are not
mapped: memory is needed for one block, and a file that is truncated meanwhile causes an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.conversion._foreign_input import open_input
from trainfeed.conversion.formats._npy_header import NpyHeader, read_header
from trainfeed.errors import ConfigError, FormatError, TruncatedError
from trainfeed.paths import FilePath
from trainfeed.samples import Field

__all__ = [
    "VALUE",
    "columns_of_rows",
    "fields_of_array",
    "iter_npy",
    "iter_rows",
    "read_npy_header",
]

VALUE: Final = "value"
_BLOCK_BYTES: Final = 1 << 20
# Blocks of arrays in Fortran order, whose rows are far apart: larger blocks need fewer reads.
_FORTRAN_BLOCK_BYTES: Final = 32 << 20
_LAST_POINT: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)
_TEXTS: Final = {"S": "bytes", "U": "str"}


def read_npy_header(path: FilePath) -> NpyHeader:
    """Read the header of a file, and compare the announced size with the size of the file.

    Raises:
        TruncatedError: The file is shorter.
        FormatError: The file is longer, or its array cannot be samples.
    """
    with open_input(path) as file:
        header = read_header(file, str(path))
        num_bytes, expected = os.fstat(file.fileno()).st_size, header.start_bytes + header.num_bytes
    if num_bytes != expected:
        kind = TruncatedError if num_bytes < expected else FormatError
        raise kind(
            f"expected {expected} bytes for {header.shape} of {header.dtype}, got {num_bytes}",
            path=str(path),
        )
    return header


def fields_of_array(name: str, header: NpyHeader, path: str) -> tuple[Field, ...]:
    """Return the fields for an array called ``name``; a structure has its own names.

    Raises:
        ConfigError: Samples cannot have values of this type.
    """
    dtype, shape = header.dtype, header.shape[1:]
    if dtype.names is None:
        return (Field(name, _dtype_of(dtype, shape, path), shape),)
    if shape:
        raise ConfigError(f"{path}: expected a structure in one dimension, got {header.shape}")
    fields = []
    for each in dtype.names:
        base, part = dtype[each].base, dtype[each].shape
        fields.append(Field(each, _dtype_of(base, part, path), part))
    return tuple(fields)


def columns_of_rows(
    fields: tuple[Field, ...], rows: NDArray[Any], path: str
) -> dict[str, NDArray[Any]]:
    """Return the columns of stored rows, in the byte order of this machine.

    Raises:
        FormatError: A bool is neither 0 nor 1, or a text is not valid Unicode.
    """
    parts = [rows] if rows.dtype.names is None else [rows[name] for name in rows.dtype.names]
    columns = {}
    for field, values in zip(fields, parts, strict=True):
        if field.dtype == "bool" and (np.ascontiguousarray(values).view(np.uint8) > 1).any():
            raise FormatError(
                f"field {field.name!r} holds a byte that is neither 0 nor 1", path=path
            )
        columns[field.name] = values.astype(values.dtype.newbyteorder("="), copy=False)
        if field.dtype == "str":
            _require_text(field, columns[field.name], path)
    return columns


def iter_npy(path: FilePath, fields: tuple[Field, ...]) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield blocks of a file as field → array; for errors see ``read_npy_header``."""
    header = read_npy_header(path)
    with open_input(path) as file:
        if header.is_fortran and len(header.shape) > 1:
            blocks = _iter_fortran(file, header, str(path))
        else:
            file.seek(header.start_bytes)
            step = max(1, _BLOCK_BYTES // max(1, header.row_bytes))
            blocks = iter_rows(file, header, step, str(path))
        for rows in blocks:
            yield columns_of_rows(fields, rows, str(path))


def iter_rows(file: BinaryIO, header: NpyHeader, step: int, path: str) -> Iterator[NDArray[Any]]:
    """Yield the rows of an array, ``step`` at a time, from a file positioned at the data.

    Yields:
        Arrays of shape ``(n, *header.shape[1:])``, in the stored dtype, read-only.

    Raises:
        TruncatedError: The file ends before the last row.
    """
    for start in range(0, header.num_rows, step):
        count = min(step, header.num_rows - start)
        data = file.read(count * header.row_bytes)
        if len(data) < count * header.row_bytes:
            raise _truncated(path)
        yield np.frombuffer(data, header.dtype).reshape(count, *header.shape[1:])


def _iter_fortran(file: BinaryIO, header: NpyHeader, path: str) -> Iterator[NDArray[Any]]:
    item_bytes, num_rows = header.dtype.itemsize, header.num_rows
    num_columns = header.row_bytes // item_bytes
    step = max(1, _FORTRAN_BLOCK_BYTES // header.row_bytes)
    for start in range(0, num_rows, step):
        count = min(step, num_rows - start)
        values = np.empty((num_columns, count), header.dtype)
        for column in range(num_columns):
            # In Fortran order all rows of a column are contiguous: the block's part of each column
            # is one read.
            place = header.start_bytes + (column * num_rows + start) * item_bytes
            target = memoryview(values[column].view(np.uint8))
            if os.preadv(file.fileno(), [target], place) < len(target):
                raise _truncated(path)
        yield values.reshape(-1).reshape((count, *header.shape[1:]), order="F")


def _dtype_of(dtype: np.dtype[Any], shape: tuple[int, ...], path: str) -> str:
    if dtype.kind in _TEXTS and not shape:
        return _TEXTS[dtype.kind]
    is_number = dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize in {2, 4, 8})
    if not is_number or dtype.names is not None:
        raise ConfigError(
            f"{path}: samples have no {dtype} of shape {shape}; save numbers, or text in one"
            " dimension; times as the integers that they are, by .view('int64')"
        )
    return dtype.newbyteorder("=").name


def _require_text(field: Field, values: NDArray[Any], path: str) -> None:
    # Converting such texts, numpy raises SystemError.
    points = np.ascontiguousarray(values).view(np.uint32)
    if ((points > _LAST_POINT) | ((points >= _SURROGATES[0]) & (points <= _SURROGATES[1]))).any():
        raise FormatError(f"field {field.name!r} holds text that is not valid Unicode", path=path)


def _truncated(path: str) -> TruncatedError:
    return TruncatedError("the file ends before the last row of the array", path=path)
