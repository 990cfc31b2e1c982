"""Readers over IDX files, the format of MNIST.

An IDX file holds one array::

    file    := 0x00 0x00 type num_dimensions size* values
    size    := uint32                         (big-endian, one per dimension)
    type    := 0x08 uint8 | 0x09 int8 | 0x0b int16 | 0x0c int32 | 0x0d float32 | 0x0e float64

Values are big-endian too, the last dimension varies fastest. Files may be gzip-compressed.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import BadMagicError, FormatError, TruncatedError
from trainfeed.paths import os_errors
from trainfeed.readers._blocks import BlockSource
from trainfeed.readers._types import Block, BlockReader, RowForm

__all__ = ["idx"]

_GZIP_MAGIC: Final = b"\x1f\x8b"
_DTYPES: Final = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_BLOCK_BYTES: Final = 1 << 20


class _Header(NamedTuple):
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize


def idx(images: str | Path, labels: str | Path | None = None) -> BlockReader:
    """Return a reader over the items of an IDX file, or over pairs of two.

    Args:
        images: The file of the first column; items have the shape and the type that its header
            says, in native byte order.
        labels: The file of the second column; None for samples of one value.

    Raises:
        NotFoundError: A file is not there; raised by a pass, as the others.
        BadMagicError: A file is no IDX file.
        TruncatedError: A file ends before what its header promises.
        FormatError: A file is longer than that, or the two differ in length.
    """
    if labels is None:
        return BlockSource(lambda: _read(images, None), form=RowForm.VALUE)
    return BlockSource(lambda: _read(images, labels), form=RowForm.TUPLE)


def _read(images: str | Path, labels: str | Path | None) -> Iterator[Block]:
    with _open(images) as (file, header):
        if labels is None:
            yield from ({"value": values} for values in _values(file, header, images, 0))
            return
        with _open(labels) as (label_file, label_header):
            if header.shape[0] != label_header.shape[0]:
                raise FormatError(
                    f"expected as many labels as images, got {label_header.shape[0]} labels for"
                    f" {header.shape[0]} images in {images}",
                    path=str(labels),
                )
            step = max(1, _BLOCK_BYTES // max(1, header.row_bytes))
            pairs = zip(
                _values(file, header, images, step),
                _values(label_file, label_header, labels, step),
                strict=True,
            )
            for image_rows, label_rows in pairs:
                yield {"image": image_rows, "label": label_rows}


@contextmanager
def _open(path: str | Path) -> Iterator[tuple[BinaryIO, _Header]]:
    with os_errors(str(path)):
        raw = Path(path).open("rb")  # noqa: SIM115 (closed below, after what may wrap it)
    with raw:
        magic = raw.read(2)
        raw.seek(0)
        file = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if magic == _GZIP_MAGIC else raw
        yield file, _header(file, str(path))


def _header(file: BinaryIO, path: str) -> _Header:
    zeros, kind, num_dimensions = struct.unpack(">HBB", _exactly(file, 4, path))
    if zeros or kind not in _DTYPES or not num_dimensions:
        raise BadMagicError(
            f"expected the header of an IDX file, got {zeros:#06x} type {kind:#04x} with"
            f" {num_dimensions} dimensions",
            path=path,
            offset_bytes=0,
        )
    sizes = struct.unpack(f">{num_dimensions}I", _exactly(file, 4 * num_dimensions, path))
    return _Header(np.dtype(_DTYPES[kind]), sizes)


def _values(file: BinaryIO, header: _Header, path: str | Path, step: int) -> Iterator[NDArray[Any]]:
    """Yield the items, ``step`` at a time (0 for as many as make a good block)."""
    step = step or max(1, _BLOCK_BYTES // max(1, header.row_bytes))
    for start in range(0, header.shape[0], step):
        count = min(step, header.shape[0] - start)
        data = _exactly(file, count * header.row_bytes, str(path))
        values = np.frombuffer(data, header.dtype).reshape(count, *header.shape[1:])
        yield values.astype(header.dtype.newbyteorder("="))
    if _at_most(file, 1, str(path)):
        raise FormatError("expected the end of the file after the last item", path=str(path))


def _exactly(file: BinaryIO, num_bytes: int, path: str) -> bytes:
    data = _at_most(file, num_bytes, path)
    if len(data) < num_bytes:
        raise TruncatedError(f"expected {num_bytes} more bytes, got {len(data)}", path=path)
    return data


def _at_most(file: BinaryIO, num_bytes: int, path: str) -> bytes:
    """Return the next bytes, fewer at the end; takes memory only for those that are there."""
    pieces = bytearray()
    try:
        with os_errors(path):
            while piece := file.read(min(num_bytes - len(pieces), _BLOCK_BYTES)):
                pieces += piece
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"the gzip stream is damaged: {error}", path=path) from error
    return bytes(pieces)
