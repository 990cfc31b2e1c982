"""``paddle.dataset.mnist``: the digits, from the four published files of the data set.

The readers download nothing: put the files into the folder ``mnist`` below
``dataset.common.DATA_HOME``, with or without gzip. ``dataset.common.download`` puts a file there
from an address that you choose.
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

# Buffer size of the original; it divides 60,000 and 10,000.
_BUFFER_SIZE: Final = 100


def train() -> Reader:
    """Return a reader over the 60,000 training digits.

    A sample is an image, float32 of shape ``(784,)`` from -1 to 1, and a label, int64 from 0 to 9.

    Raises:
        NotFoundError: A file does not exist.
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
        image_filename: IDX file of images, uint8 of shape ``(28, 28)``, with or without gzip.
        label_filename: IDX file of the labels, uint8, with or without gzip.
        buffer_size: A whole number of 1 or more, without effect. The original omits the digits
            after the last multiple of it; this reader yields all digits.

    Raises:
        ValueError: ``buffer_size`` is not a whole number of 1 or more.
        NotFoundError: A file does not exist.
        FormatError: A file is not an IDX file of this kind, or the counts of images and labels
            differ; raised by the pass.
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
