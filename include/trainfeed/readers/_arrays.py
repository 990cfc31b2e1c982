"""Readers over arrays in memory, and over text files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from trainfeed.errors import FormatError
from trainfeed.paths import FilePath, open_plain
from trainfeed.readers._blocks import BlockSource
from trainfeed.readers._position import ended
from trainfeed.readers._types import Block, BlockReader, Reader, RowForm

__all__ = ["np_array", "text_file"]

_BLOCK_BYTES: Final = 1 << 20


def np_array(array: ArrayLike) -> BlockReader:
    """Return a reader over the rows of an array.

    Args:
        array: Shape ``(n, *S)``. Samples and blocks are views of the array. An array without
            dimensions gives its value as one sample.
    """
    values = np.atleast_1d(np.asarray(array))
    row_bytes = max(1, values.nbytes // max(1, len(values)))
    step = max(1, _BLOCK_BYTES // row_bytes)

    def blocks_from(position: int) -> Iterator[Block]:
        if position > len(values):
            raise ended(position, len(values))
        for start in range(position, len(values), step):
            yield {"value": values[start : start + step]}

    return BlockSource(lambda: blocks_from(0), form=RowForm.VALUE, blocks_from=blocks_from)


def text_file(path: FilePath) -> Reader:
    r"""Return a reader over the lines of a UTF-8 file, without the ``\n`` at their end.

    Raises:
        NotFoundError: The file does not exist. All three errors are raised by a pass.
        FormatError: The path is not a plain file, or the file is not UTF-8.
        StorageError: The file cannot be read.
    """

    def read() -> Iterator[str]:
        with open_plain(path, follow=True) as file:
            for number, line in enumerate(file, 1):
                yield _text(line, number, path).removesuffix("\n")

    return read


def _text(line: bytes, number: int, path: FilePath) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"line {number}: expected UTF-8: {error}", path=str(path)) from error
