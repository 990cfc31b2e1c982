"""The header of a NumPy file, checked before memory of the announced size is allocated.

A header is the text of a Python dict. numpy parses it as a literal, which runs no code. This
module checks the length of the header first, and then every type: types that need a pickle are
refused.
"""

from __future__ import annotations

import io
import math
import tokenize
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import BadMagicError, FormatError, TruncatedError

__all__ = ["NPY_MAGIC", "NpyHeader", "read_array", "read_header"]

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
            " what their writer has put there; save numbers or text",
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
