"""IDX files, the format of MNIST, plain or compressed with gzip.

An IDX file holds one array. All numbers are big-endian::

    file    := 0x00 0x00 type num_dimensions length{num_dimensions} values
    type    := 0x08 uint8 | 0x09 int8 | 0x0b int16 | 0x0c int32 | 0x0d float32 | 0x0e float64
    length  := uint32                          (of one dimension; the first one counts the items)

The last dimension varies fastest. The header of MNIST's images has 16 bytes, that of its labels 8.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import BadMagicError, ConfigError, FormatError, TruncatedError
from trainfeed.paths import FilePath, open_plain, os_errors
from trainfeed.readers._position import ended

__all__ = ["IdxFile", "IdxHeader", "open_idx"]

_START: Final = struct.Struct(">HBB")
_DTYPES: Final = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_TYPES: Final = {np.dtype(name).newbyteorder("="): code for code, name in _DTYPES.items()}
_GZIP_MAGIC: Final = b"\x1f\x8b"
# Limits for headers: a damaged one may announce any size, and a hostile compressed file may even
# contain it.
_MAX_DIMENSIONS: Final = 8
_MAX_ITEM_BYTES: Final = 1 << 24
_BLOCK_BYTES: Final = 1 << 20


class IdxHeader(NamedTuple):
    """Number, shape and type of the items of an IDX file.

    Attributes:
        num_items: Number of items.
        item_shape: Shape of an item.
        dtype: Dtype of the values, in the byte order of this machine.
    """

    num_items: int
    item_shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def item_bytes(self) -> int:
        """Bytes of an item."""
        return math.prod(self.item_shape) * self.dtype.itemsize

    @property
    def block_items(self) -> int:
        """Number of items in about 1 MiB, at least 1."""
        return max(1, _BLOCK_BYTES // max(1, self.item_bytes))

    def dump(self) -> bytes:
        """Return the bytes of the header.

        Raises:
            ConfigError: IDX does not have the type or shape.
        """
        code = _TYPES.get(self.dtype.newbyteorder("="))
        lengths = (self.num_items, *self.item_shape)
        if code is None or max(lengths) >= 1 << 32 or len(lengths) > _MAX_DIMENSIONS:
            raise ConfigError(
                f"expected {', '.join(str(each) for each in _TYPES)} in up to {_MAX_DIMENSIONS}"
                f" dimensions for IDX, got {self.dtype} {lengths}"
            )
        return _START.pack(0, code, len(lengths)) + struct.pack(f">{len(lengths)}I", *lengths)


class IdxFile:
    """An open IDX file; see ``open_idx``.

    Attributes:
        header: The header of the file.
    """

    def __init__(self, file: BinaryIO, path: str, file_bytes: int | None) -> None:
        self._file = file
        self._path = path
        self.header = self._read_header(file_bytes)

    def iter_blocks(self, block_items: int, *, position: int = 0) -> Iterator[NDArray[Any]]:
        """Yield the items in blocks, once.

        Args:
            block_items: Items per block, fewer in the last one.
            position: Number of items to skip.

        Yields:
            Arrays of shape ``(n, *item_shape)``, in the byte order of this machine, with memory of
            their own.

        Raises:
            ReaderEndedError: There are fewer items than ``position``.
            TruncatedError: The file ends before its last item.
            FormatError: The file cannot be decompressed, or continues after its last item.
        """
        header, stored = self.header, self.header.dtype.newbyteorder(">")
        if position > header.num_items:
            raise ended(position, header.num_items)
        with _damage_told(self._path):
            self._file.seek(position * header.item_bytes, os.SEEK_CUR)
        for start in range(position, header.num_items, block_items):
            count = min(block_items, header.num_items - start)
            data = self._exactly(count * header.item_bytes)
            values = np.frombuffer(data, stored).reshape(count, *header.item_shape)
            yield values.astype(header.dtype, copy=False)
        if self._at_most(1):
            raise FormatError(
                f"expected the end of the file after the last of {header.num_items} items",
                path=self._path,
            )

    def _read_header(self, file_bytes: int | None) -> IdxHeader:
        zeros, code, num_dimensions = _START.unpack(self._exactly(_START.size))
        if zeros or code not in _DTYPES or not 0 < num_dimensions <= _MAX_DIMENSIONS:
            raise BadMagicError(
                f"expected the header of an IDX file, got {zeros:#06x} type {code:#04x} with"
                f" {num_dimensions} dimensions",
                path=self._path,
                offset_bytes=0,
            )
        lengths = struct.unpack(f">{num_dimensions}I", self._exactly(4 * num_dimensions))
        dtype = np.dtype(_DTYPES[code]).newbyteorder("=")
        header = IdxHeader(lengths[0], lengths[1:], dtype)
        # Checked before memory of this size is allocated.
        if not 0 < header.item_bytes <= _MAX_ITEM_BYTES:
            raise FormatError(
                f"expected items of 1 to {_MAX_ITEM_BYTES} bytes, got shape {header.item_shape}",
                path=self._path,
                offset_bytes=_START.size,
            )
        expected = _START.size + 4 * num_dimensions + header.num_items * header.item_bytes
        if file_bytes is not None and file_bytes < expected:
            raise TruncatedError(
                f"expected {expected} bytes for {header.num_items} items of {header.item_shape},"
                f" got {file_bytes}",
                path=self._path,
            )
        return header

    def _exactly(self, num_bytes: int) -> bytearray:
        data = self._at_most(num_bytes)
        if len(data) < num_bytes:
            raise TruncatedError(
                f"expected {num_bytes} more bytes, got {len(data)}", path=self._path
            )
        return data

    def _at_most(self, num_bytes: int) -> bytearray:
        """Return the next bytes, fewer at the end; allocates memory only for existing bytes."""
        data = bytearray()
        with _damage_told(self._path):
            while piece := self._file.read(min(num_bytes - len(data), _BLOCK_BYTES)):
                data += piece
        return data


@contextmanager
def open_idx(path: FilePath) -> Iterator[IdxFile]:
    """Open an IDX file, plain or compressed, and close it at the end.

    Raises:
        NotFoundError: The file does not exist.
        BadMagicError: The file is not an IDX file.
        TruncatedError: The file ends inside its header; an uncompressed file also if it ends
            before its last item.
        FormatError: The path is not a plain file, or the file cannot be decompressed, or items
            have 0 bytes or more than 16 MiB.
        StorageError: The file cannot be read.
    """
    with open_plain(path, follow=True) as raw:
        with os_errors(str(path)):
            is_gzip = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            raw.seek(0)
        if not is_gzip:
            yield IdxFile(raw, str(path), os.fstat(raw.fileno()).st_size)
            return
        with gzip.GzipFile(fileobj=raw) as inflated:
            yield IdxFile(cast("BinaryIO", inflated), str(path), None)


@contextmanager
def _damage_told(path: str) -> Iterator[None]:
    with os_errors(path):
        try:
            yield
        except EOFError as error:
            raise TruncatedError(f"the gzip stream ends early: {error}", path=path) from error
        # Inside os_errors, because BadGzipFile is a subclass of OSError.
        except (zlib.error, gzip.BadGzipFile) as error:
            raise FormatError(f"the gzip stream is damaged: {error}", path=path) from error
