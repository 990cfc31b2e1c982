"""``paddle.dataset.mnist``: the digits, from the four files that the data set is published as.

Nothing is downloaded by itself: put the files into ``mnist`` below ``dataset.common.DATA_HOME``,
compressed with gzip or not; ``dataset.common.download`` puts one there from an address of yours.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np

from trainfeed.compat.paddle.dataset import common
from trainfeed.decorators import map_blocks
from trainfeed.errors import NotFoundError
from trainfeed.readers import Block, Reader, idx

__all__ = ["reader_creator", "test", "train"]

# The original's; it divides 60,000 and 10,000.
_BUFFER_SIZE: Final = 100


def train() -> Reader:
    """Return a reader over the 60,000 training digits.

    A sample is an image, float32 of shape ``(784,)`` from -1 to 1, and a label from 0 to 9.

    Raises:
        NotFoundError: The files are not there.
    """
    return _digits("train")


def test() -> Reader:
    """Return a reader over the 10,000 test digits; see ``train``."""
    return _digits("t10k")


def reader_creator(
    image_filename: str | os.PathLike[str], label_filename: str | os.PathLike[str], buffer_size: int
) -> Reader:
    """Return a reader over the digits of an image file and a label file; see ``train``.

    Args:
        image_filename: Images of 28 by 28 bytes, as an IDX file, compressed with gzip or not.
        label_filename: Their labels, likewise.
        buffer_size: 1 or more; of no further effect. The original leaves out the digits behind the
            last multiple of it, here all of them come.

    Raises:
        ValueError: ``buffer_size`` is no whole number of 1 or more.
        NotFoundError: A file is not there.
        FormatError: A file is none of this kind, or one has more items than the other; raised by
            the pass.
    """
    if type(buffer_size) is not int or buffer_size < 1:
        raise ValueError(f"expected buffer_size as a whole number from 1 on, got {buffer_size!r}")
    for path in (image_filename, label_filename):
        if not Path(path).exists():
            raise NotFoundError(f"expected a file of digits, {os.fspath(path)} is not there")
    return map_blocks(_scaled, idx(image_filename, label_filename))


def _digits(name: str) -> Reader:
    return reader_creator(
        _find(f"{name}-images-idx3-ubyte"), _find(f"{name}-labels-idx1-ubyte"), _BUFFER_SIZE
    )


def _scaled(block: Block) -> Block:
    pixels = block["image"].reshape(len(block["image"]), -1).astype(np.float32)
    return {"image": pixels / 255.0 * 2.0 - 1.0, "label": block["label"].astype(np.int64)}


def _find(name: str) -> Path:
    folder = Path(common.DATA_HOME) / "mnist"
    for path in (folder / f"{name}.gz", folder / name):
        if path.exists():
            return path
    raise NotFoundError(f"expected {name}.gz or {name} in {folder}; put the files of MNIST there")
