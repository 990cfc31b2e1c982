"""``paddle.dataset.mnist``: the digits, from the four files that the data set is published as.

Nothing is downloaded: put the files into ``mnist`` below ``dataset.common.DATA_HOME``, compressed
with gzip or not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainfeed.compat.paddle.dataset import common
from trainfeed.decorators import map_blocks
from trainfeed.errors import NotFoundError
from trainfeed.readers import Block, Reader, idx

__all__ = ["test", "train"]


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


def _digits(name: str) -> Reader:
    images, labels = _find(f"{name}-images-idx3-ubyte"), _find(f"{name}-labels-idx1-ubyte")
    return map_blocks(_scaled, idx(images, labels))


def _scaled(block: Block) -> Block:
    pixels = block["image"].reshape(len(block["image"]), -1).astype(np.float32)
    return {"image": pixels / 255.0 * 2.0 - 1.0, "label": block["label"].astype(np.int64)}


def _find(name: str) -> Path:
    folder = Path(common.DATA_HOME) / "mnist"
    for path in (folder / f"{name}.gz", folder / name):
        if path.exists():
            return path
    raise NotFoundError(f"expected {name}.gz or {name} in {folder}; put the files of MNIST there")
