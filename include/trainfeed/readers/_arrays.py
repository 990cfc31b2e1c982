"""Readers over what is in memory, and over text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from trainfeed.paths import os_errors
from trainfeed.readers._blocks import BlockSource
from trainfeed.readers._types import Block, BlockReader, Reader, RowForm

__all__ = ["np_array", "text_file"]

_BLOCK_BYTES: Final = 1 << 20


def np_array(array: ArrayLike) -> BlockReader:
    """Return a reader over the rows of an array.

    Args:
        array: Shape ``(n, *S)``. Samples and blocks are views of it. One without dimensions gives
            its value once.
    """
    values = np.atleast_1d(np.asarray(array))
    row_bytes = max(1, values.nbytes // max(1, len(values)))
    step = max(1, _BLOCK_BYTES // row_bytes)

    def blocks() -> Iterator[Block]:
        for start in range(0, len(values), step):
            yield {"value": values[start : start + step]}

    return BlockSource(blocks, form=RowForm.VALUE)


def text_file(path: str | Path) -> Reader:
    r"""Return a reader over the lines of a UTF-8 file, without the ``\n`` at their end.

    Raises:
        NotFoundError: The file is not there; raised by a pass, as the others.
        StorageError: It cannot be read.
    """

    def read() -> Iterator[str]:
        # Any other newline mode would take a carriage return for part of the line's end.
        with os_errors(str(path)), Path(path).open(encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.removesuffix("\n")

    return read
