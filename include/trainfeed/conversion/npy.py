"""Arrays of NumPy ↔ samples: ``.npy`` and ``.npz``, with headers checked before memory is taken."""

from __future__ import annotations

import io
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import IO, Any, BinaryIO, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from trainfeed.conversion.foreign_input import open_input
from trainfeed.errors import BadMagicError, ConfigError, FormatError, TruncatedError
from trainfeed.files import FilePath
from trainfeed.samples import Field, Schema

# --- The header of a NumPy file, checked before memory of the announced size is allocated

NPY_MAGIC: Final = b"\x93NUMPY"
_MAX_HEADER_BYTES: Final = 10_000
_MAX_ROW_BYTES: Final = 64 << 20
# Errors that numpy and the parser of Python raise for an invalid header.
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    KeyError,
    SyntaxError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    tokenize.TokenError,
)
# Per version the size of the header's length field, and numpy's parser.
_READERS: Final = {
    (1, 0): (2, np.lib.format.read_array_header_1_0),
    (2, 0): (4, np.lib.format.read_array_header_2_0),
}


class NpyHeader(NamedTuple):
    """Shape and type of an array, and the place of its data.

    Attributes:
        shape: Shape of the array; the first dimension counts the rows.
        is_fortran: Whether the first dimension varies fastest.
        dtype: The stored dtype.
        start_bytes: Offset of the data.
    """

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    start_bytes: int

    @property
    def num_rows(self) -> int:
        """Number of samples."""
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        """Bytes of one sample."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def num_bytes(self) -> int:
        """Bytes of the data."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: BinaryIO, path: str) -> NpyHeader:
    """Read a header; afterwards the file is positioned at the data.

    Raises:
        BadMagicError: The file is not an array of NumPy, or has an unknown version.
        TruncatedError: The file ends inside the header.
        FormatError: The header is damaged, or its array cannot be samples.
    """
    magic = file.read(8)
    version = (magic[6], magic[7]) if len(magic) == 8 else (0, 0)
    if magic[:6] != NPY_MAGIC or version not in _READERS:
        raise BadMagicError(
            f"expected an array of NumPy, version 1.0 or 2.0, got {magic.hex()}",
            path=path,
            offset_bytes=0,
        )
    length_bytes, parse = _READERS[version]
    length = _exactly(file, length_bytes, path)
    num_bytes = int.from_bytes(length, "little")
    # numpy evaluates the header as a Python literal, which is slow for long text.
    if num_bytes > _MAX_HEADER_BYTES:
        raise FormatError(
            f"expected a header of at most {_MAX_HEADER_BYTES} bytes, got {num_bytes}", path=path
        )
    text = _exactly(file, num_bytes, path)
    try:
        shape, is_fortran, dtype = parse(io.BytesIO(length + text))
    except _UNREADABLE as error:
        raise FormatError(f"expected the header of an array: {error!s:.300}", path=path) from error
    header = NpyHeader(shape, is_fortran, dtype, len(magic) + length_bytes + num_bytes)
    _check(header, path)
    return header


def read_array(file: BinaryIO, num_bytes: int, path: str = "") -> NDArray[Any]:
    """Read an array that fills a file, or a member of an archive.

    Args:
        file: The file, positioned at its start.
        num_bytes: Size of the file.
        path: Name for messages.

    Returns:
        The array in its stored dtype, read-only.

    Raises:
        FormatError: The file is not an array, holds objects, or has another size than announced.
    """
    header = read_header(file, path)
    if header.start_bytes + header.num_bytes != num_bytes:
        raise FormatError(
            f"expected {header.start_bytes + header.num_bytes} bytes for {header.shape} of"
            f" {header.dtype}, got {num_bytes}",
            path=path or None,
        )
    flat = np.frombuffer(file.read(header.num_bytes), header.dtype)
    return flat.reshape(header.shape, order="F" if header.is_fortran else "C")


def _check(header: NpyHeader, path: str) -> None:
    if header.dtype.hasobject:
        raise FormatError(
            f"expected values that need no pickle, got {header.dtype}: reading Python objects runs"
            " code that their writer chose; save numbers or text",
            path=path,
        )
    if header.dtype.subdtype is not None:
        raise FormatError(f"expected a plain type of values, got {header.dtype}", path=path)
    if any(length < 0 for length in header.shape) or not header.dtype.itemsize:
        raise FormatError(
            f"expected lengths from 0 and items of a byte or more, got {header.shape} of"
            f" {header.dtype}",
            path=path,
        )
    if not header.shape:
        raise FormatError(
            "expected an array whose first dimension counts the samples, got a single value",
            path=path,
        )
    if header.row_bytes > _MAX_ROW_BYTES:
        raise FormatError(
            f"expected rows of at most {_MAX_ROW_BYTES} bytes, got {header.row_bytes}", path=path
        )


def _exactly(file: BinaryIO, num_bytes: int, path: str) -> bytes:
    data = file.read(num_bytes)
    if len(data) < num_bytes:
        raise TruncatedError("the file ends within the header of an array", path=path)
    return data


# --- Arrays of NumPy as samples: a file ``.npy`` is one array, whose rows are the samples

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
            f"{path}: a sample cannot hold {dtype} of shape {shape}; save numbers, or text in one"
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


# --- Archives of NumPy, ``.npz``: one array per column, all of one length

_SUFFIX: Final = ".npy"
# Limit for the list of members, which is read at once; enough for about ten thousand members.
_MAX_LIST_BYTES: Final = 1 << 20
_ENCRYPTED: Final = 1


class NpzColumns:
    """The arrays of an archive, whose headers were checked.

    Attributes:
        schema: Schema of the samples; a structure ``a`` gives fields ``a.x``.
        num_rows: Number of samples.
        arrays: Member, header and fields of each array, in the order of the archive.
    """

    def __init__(self, archive: zipfile.ZipFile, path: str) -> None:
        self.arrays: list[tuple[zipfile.ZipInfo, NpyHeader, tuple[Field, ...]]] = []
        for info in archive.infolist():
            header = _header_of(archive, info, path)
            self.arrays.append((info, header, _fields_of(info, header, path)))
        lengths = {info.filename: header.num_rows for info, header, _ in self.arrays}
        if len(lengths) != len(self.arrays) or not lengths:
            raise FormatError("expected one array or more, each with a name of its own", path=path)
        if len(set(lengths.values())) > 1:
            raise FormatError(f"expected arrays of one length, got {lengths!s:.500}", path=path)
        self.num_rows = next(iter(lengths.values()))
        self.schema = Schema(tuple(field for *_, fields in self.arrays for field in fields))


@contextmanager
def open_npz(path: FilePath) -> Iterator[tuple[zipfile.ZipFile, NpzColumns]]:
    """Open an archive.

    Raises:
        FormatError: The archive is damaged, or has members that are not arrays, or arrays of
            different lengths.
        ConfigError: Samples cannot have values of such a type.
    """
    with open_input(path) as file, _damage_told(path):
        bounded = _Bounded(file)
        with zipfile.ZipFile(cast("IO[bytes]", bounded)) as archive:
            bounded.max_bytes = None
            yield archive, NpzColumns(archive, str(path))


def iter_npz(path: FilePath) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield blocks of an archive as field → array.

    Raises:
        FormatError: See ``open_npz``; or the checksum of an array differs.
    """
    with open_npz(path) as (archive, columns), ExitStack() as closing:
        row_bytes = sum(header.row_bytes for _, header, _ in columns.arrays)
        step = max(1, _BLOCK_BYTES // max(1, row_bytes))
        files = []
        for info, header, _ in columns.arrays:
            file = cast("BinaryIO", closing.enter_context(archive.open(info)))
            file.read(header.start_bytes)
            files.append(file)
        blocks = [
            iter_rows(file, header, step, _called(path, info))
            for file, (info, header, _) in zip(files, columns.arrays, strict=True)
        ]
        for parts in zip(*blocks, strict=True):
            block: dict[str, NDArray[Any]] = {}
            for rows, (info, _, fields) in zip(parts, columns.arrays, strict=True):
                block |= columns_of_rows(fields, rows, _called(path, info))
            yield block
        for file in files:
            # zipfile compares the checksum when a read reaches the end.
            file.read(1)


def _header_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> NpyHeader:
    if not info.filename.endswith(_SUFFIX) or info.is_dir() or info.flag_bits & _ENCRYPTED:
        raise FormatError(
            f"expected arrays of NumPy, {_SUFFIX} and not encrypted, got {info.filename[:200]!r}",
            path=path,
        )
    called = _called(path, info)
    with archive.open(info) as file:
        header = read_header(cast("BinaryIO", file), called)
    if header.is_fortran and len(header.shape) > 1:
        raise ConfigError(
            f"{called}: expected rows one after another, got an array whose first dimension varies"
            " fastest, and such an array has no rows side by side in an archive; save"
            " numpy.ascontiguousarray of it"
        )
    if info.file_size != header.start_bytes + header.num_bytes:
        raise FormatError(
            f"expected {header.start_bytes + header.num_bytes} bytes for {header.shape} of"
            f" {header.dtype}, got {info.file_size}",
            path=called,
        )
    return header


def _fields_of(info: zipfile.ZipInfo, header: NpyHeader, path: str) -> tuple[Field, ...]:
    name = info.filename.removesuffix(_SUFFIX)
    fields = fields_of_array(name, header, _called(path, info))
    if header.dtype.names is None:
        return fields
    return tuple(Field(f"{name}.{each.name}", each.dtype, each.shape) for each in fields)


def _called(path: FilePath, info: zipfile.ZipInfo) -> str:
    return f"{path}:{info.filename[:200]}"


@contextmanager
def _damage_told(path: FilePath) -> Iterator[None]:
    try:
        yield
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        NotImplementedError,
        ValueError,
        OverflowError,
    ) as error:
        raise FormatError(
            f"the archive is damaged, or of a kind not read here: {error}", path=str(path)
        ) from error


class _Bounded:
    """A file that limits single reads of ``zipfile``, while it reads the list of members."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.tell, self.seekable = file.tell, file.seekable
        self.max_bytes: int | None = _MAX_LIST_BYTES

    def read(self, num_bytes: int = -1) -> bytes:
        if self.max_bytes is not None and num_bytes > self.max_bytes:
            raise zipfile.BadZipFile(f"its list of members would take {num_bytes} bytes")
        return self._file.read(num_bytes)

    def seek(self, offset: int, whence: int = 0) -> int:
        if not whence and offset < 0:
            raise zipfile.BadZipFile(f"it leads to the byte {offset}")
        # zipfile also seeks from the end to places before the start of a small file, and handles
        # the error.
        return self._file.seek(offset, whence)


# --- Writes samples as arrays of NumPy: ``.npy`` for a single field, ``.npz`` for several

# The earliest time of ZIP, the same in every file, so that equal samples give equal files.
_TIME: Final = (1980, 1, 1, 0, 0, 0)

ColumnsOf = Callable[[], Iterator[Mapping[str, Any]]]


def write_npy(file: BinaryIO, samples: ColumnsOf, schema: Schema, num_samples: int) -> None:
    """Write samples of one field as an array of shape ``(num_samples, *field.shape)``.

    Args:
        file: The new file.
        samples: Called once; yields the samples in the form of ``TypedCodec.decode``.
        schema: A schema of one required field of fixed size.
        num_samples: Number of samples.

    Raises:
        ConfigError: The schema is not of this kind.
    """
    fields = _fixed(schema)
    if len(fields) > 1:
        raise ConfigError(f"expected one field for .npy, got {list(schema.names)}; write .npz")
    _write_array(file, samples(), fields[0], num_samples)


def write_npz(file: BinaryIO, samples: ColumnsOf, schema: Schema, num_samples: int) -> None:
    """Write samples as an archive with an array per field, without compression.

    Args:
        file: The new file.
        samples: Called once per field; yields the samples in the form of ``TypedCodec.decode``.
        schema: A schema of required fields of fixed size.
        num_samples: Number of samples.

    Raises:
        ConfigError: The schema is not of this kind.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for field in _fixed(schema):
            info = zipfile.ZipInfo(f"{field.name}.npy", _TIME)
            with archive.open(info, "w", force_zip64=True) as member:
                _write_array(cast("BinaryIO", member), samples(), field, num_samples)


def _fixed(schema: Schema) -> list[Field]:
    wrong = [field.name for field in schema if not field.is_fixed or field.optional]
    if wrong:
        raise ConfigError(
            f"expected fields of fixed size that no sample lacks for arrays of NumPy, got {wrong}"
        )
    return list(schema)


def _write_array(
    file: BinaryIO, samples: Iterator[Mapping[str, Any]], field: Field, num_samples: int
) -> None:
    dtype = field.values_dtype
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": (num_samples, *field.item_shape),
    }
    np.lib.format.write_array_header_1_0(file, header)
    count = 0
    for sample in samples:
        file.write(np.ascontiguousarray(sample[field.name], dtype).tobytes())
        count += 1
    if count != num_samples:
        raise ConfigError(f"expected {num_samples} samples, got {count}: the source has changed")
