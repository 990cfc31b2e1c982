"""IDX files, as MNIST has them, plain or compressed with gzip.

All integers are big-endian::

    file := 0x00 0x00 type ndim length{ndim} values

``type`` is 08 uint8, 09 int8, 0b int16, 0c int32, 0d float32 or 0e float64; a length is 4 bytes,
and the first one counts the items. The header of a file is 4 + 4 x ndim bytes: 16 for MNIST's
images, 8 for its labels.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from trainfeed.conversion._input import open_input
from trainfeed.errors import ConfigError, FormatError, TruncatedError
from trainfeed.samples import Field, Schema

__all__ = ["IdxHeader", "idx_schema", "iter_idx", "iter_idx_pairs", "read_idx_header", "write_idx"]

_DTYPES: Final = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_TYPES: Final = {np.dtype(name).newbyteorder("="): code for code, name in _DTYPES.items()}
_MAX_DIMENSIONS: Final = 8
_MAX_ITEM_BYTES: Final = 1 << 24
_BLOCK_BYTES: Final = 4 << 20
_GZIP: Final = b"\x1f\x8b"


class IdxHeader(NamedTuple):
    """What an IDX file holds.

    Attributes:
        num_items: How many.
        item_shape: Shape of each.
        dtype: Of the values, in the byte order of this machine.
    """

    num_items: int
    item_shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def item_bytes(self) -> int:
        """What one item takes."""
        return math.prod(self.item_shape) * self.dtype.itemsize


def read_idx_header(path: Path) -> IdxHeader:
    """Read what a file says that it holds.

    Raises:
        FormatError: It is no IDX file.
        TruncatedError: It ends before; an uncompressed file also when its values do.
    """
    with _open(path) as (_, header):
        return header


def idx_schema(images: Path, labels: Path | None = None) -> Schema:
    """Return the schema of the samples of a file: ``image`` and, if there are any, ``label``."""
    fields = []
    for name, path in (("image", images), ("label", labels)):
        if path is not None:
            header = read_idx_header(path)
            fields.append(Field(name, header.dtype.name, header.item_shape))
    return Schema(tuple(fields))


def iter_idx(path: Path, *, block_items: int | None = None) -> Iterator[NDArray[Any]]:
    """Yield the items of a file in blocks.

    Args:
        path: The file.
        block_items: Items of a block, the last one excepted; None for about 4 MiB.

    Yields:
        Shape ``(n, *item_shape)``, in the byte order of this machine, the caller's own.

    Raises:
        FormatError: It is no IDX file, does not inflate, or goes on after its last item.
        TruncatedError: It ends before.
    """
    with _open(path) as (file, header):
        size = block_items or max(1, _BLOCK_BYTES // max(1, header.item_bytes))
        for start in range(0, header.num_items, size):
            count = min(size, header.num_items - start)
            data = _read(file, count * header.item_bytes, path)
            values = np.frombuffer(data, header.dtype.newbyteorder(">"))
            yield values.astype(header.dtype).reshape(count, *header.item_shape)
        if _read_some(file, 1, path):
            raise FormatError(f"bytes follow the last of {header.num_items} items", path=str(path))


def iter_idx_pairs(images: Path, labels: Path) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield blocks of ``image`` and ``label``, as ``convert_arrays`` takes them.

    Raises:
        FormatError: A file is damaged, or they hold different numbers of items.
    """
    header = read_idx_header(images)
    found = read_idx_header(labels)
    if header.num_items != found.num_items:
        raise FormatError(
            f"expected {header.num_items} labels for as many images, got {found.num_items}",
            path=str(labels),
        )
    size = max(1, _BLOCK_BYTES // max(1, header.item_bytes))
    blocks = zip(
        iter_idx(images, block_items=size), iter_idx(labels, block_items=size), strict=True
    )
    for image, label in blocks:
        yield {"image": image, "label": label}


def write_idx(file: BinaryIO, blocks: Iterable[NDArray[Any]], header: IdxHeader) -> None:
    """Write items.

    Args:
        file: A binary file.
        blocks: Arrays of shape ``(n, *header.item_shape)``.
        header: What they are together.

    Raises:
        ConfigError: IDX has no such type or shape, or the blocks are something else.
    """
    code = _TYPES.get(header.dtype.newbyteorder("="))
    lengths = (header.num_items, *header.item_shape)
    if code is None or max(lengths) >= 1 << 32 or len(lengths) > _MAX_DIMENSIONS:
        raise ConfigError(
            f"expected {', '.join(str(each) for each in _TYPES)} in up to {_MAX_DIMENSIONS}"
            f" dimensions for IDX, got {header.dtype} {lengths}"
        )
    file.write(bytes([0, 0, code, len(lengths)]) + np.array(lengths, ">u4").tobytes())
    count = 0
    for block in blocks:
        if block.shape[1:] != header.item_shape or block.dtype != header.dtype:
            raise ConfigError(
                f"expected items of {header.dtype} {header.item_shape}, got {block.dtype}"
                f" {block.shape[1:]}"
            )
        file.write(block.astype(header.dtype.newbyteorder(">")).tobytes())
        count += len(block)
    if count != header.num_items:
        raise ConfigError(f"expected {header.num_items} items, got {count}")


@contextmanager
def _open(path: Path) -> Iterator[tuple[BinaryIO, IdxHeader]]:
    with open_input(path) as file:
        is_gzip = file.read(2) == _GZIP
        file.seek(0)
        if is_gzip:
            with gzip.GzipFile(fileobj=file) as inflated:
                stream = cast("BinaryIO", inflated)
                yield stream, _read_header(stream, path, None)
        else:
            yield file, _read_header(file, path, os.fstat(file.fileno()).st_size)


def _read_header(file: BinaryIO, path: Path, file_bytes: int | None) -> IdxHeader:
    start = _read(file, 4, path)
    if start[:2] != b"\0\0" or start[2] not in _DTYPES or not 1 <= start[3] <= _MAX_DIMENSIONS:
        raise FormatError(f"expected an IDX file, it begins with {start.hex()}", path=str(path))
    lengths = np.frombuffer(_read(file, 4 * start[3], path), ">u4").tolist()
    dtype = np.dtype(_DTYPES[start[2]]).newbyteorder("=")
    header = IdxHeader(lengths[0], tuple(lengths[1:]), dtype)
    # Before anything of that size is allocated.
    if header.item_bytes > _MAX_ITEM_BYTES or 0 in header.item_shape:
        raise FormatError(
            f"expected items of 1 to {_MAX_ITEM_BYTES} bytes, got shape {header.item_shape}",
            path=str(path),
        )
    expected = 4 + 4 * start[3] + header.num_items * header.item_bytes
    if file_bytes is not None and file_bytes < expected:
        raise TruncatedError(
            f"expected {expected} bytes for {header.num_items} items of {header.item_shape}, got"
            f" {file_bytes}",
            path=str(path),
        )
    return header


def _read(file: BinaryIO, num_bytes: int, path: Path) -> bytes:
    pieces, left = [], num_bytes
    # Piece by piece: memory is taken for bytes that are there, not for those announced.
    while left:
        piece = _read_some(file, min(left, _BLOCK_BYTES), path)
        if not piece:
            raise TruncatedError(f"{left} bytes are missing", path=str(path))
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _read_some(file: BinaryIO, num_bytes: int, path: Path) -> bytes:
    try:
        return file.read(num_bytes)
    except EOFError as error:
        raise TruncatedError(f"the compressed data end early: {error}", path=str(path)) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"the file does not inflate: {error}", path=str(path)) from error
