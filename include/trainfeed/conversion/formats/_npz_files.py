"""Archives of NumPy, ``.npz``: one array per column, all of one length.

An archive is a ZIP file, compressed or not. All its arrays are read in parallel, a block of rows
at a time, so memory does not grow with their length. The checksum of an array is verified at its
end.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import IO, Any, BinaryIO, Final, cast

from numpy.typing import NDArray

from trainfeed.conversion._foreign_input import open_input
from trainfeed.conversion.formats._npy_files import columns_of_rows, fields_of_array, iter_rows
from trainfeed.conversion.formats._npy_header import NpyHeader, read_header
from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import FilePath
from trainfeed.samples import Field, Schema

__all__ = ["NpzColumns", "iter_npz", "open_npz"]

_SUFFIX: Final = ".npy"
_BLOCK_BYTES: Final = 1 << 20
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
