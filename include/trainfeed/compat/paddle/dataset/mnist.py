"""``paddle.dataset.mnist``: the digits, from the published files, or from the public set.

The readers download nothing. They read the four files in the folder ``mnist`` below
``dataset.common.DATA_HOME``, with or without gzip; ``dataset.common.download`` puts a file there
from an address that you choose. Where these files are not, they read the public set ``mnist`` of
the data centre, whose digits come in an order of their own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np

from trainfeed.compat.paddle.dataset import common
from trainfeed.core.datacenters import local_source
from trainfeed.decorators import map_blocks
from trainfeed.errors import NotFoundError, RootError
from trainfeed.publicsets import known_public_root, open_public
from trainfeed.readers import Block, Reader, RowForm, idx

__all__ = ["reader_creator", "test", "train"]

# Buffer size of the original; it divides 60,000 and 10,000.
_BUFFER_SIZE: Final = 100


def train() -> Reader:
    """Return a reader over the training digits: 60,000 from the files.

    A sample is an image, float32 of shape ``(784,)`` from -1 to 1, and a label, int64 from 0 to 9.

    Raises:
        NotFoundError: The files do not exist, and no public set is known that has the digits.
        ChecksumError: The manifest of the public set differs from the published one.
    """
    return _digits("train", "train")


def test() -> Reader:
    """Return a reader over the test digits, 10,000 from the files; see ``train``."""
    return _digits("t10k", "test")


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
        if not Path(local_source(path)).exists():
            raise NotFoundError(f"expected a file of digits, {os.fspath(path)} is not there")
    return map_blocks(_scaled, idx(image_filename, label_filename))


def _digits(name: str, split: str) -> Reader:
    image_name, label_name = f"{name}-images-idx3-ubyte", f"{name}-labels-idx1-ubyte"
    images, labels = _find(image_name), _find(label_name)
    if images is not None and labels is not None:
        return reader_creator(images, labels, _BUFFER_SIZE)
    if images is None and labels is None:
        return _published(split, image_name)
    # One file alone is a mistake that the public set must not hide.
    raise _missing(image_name if images is None else label_name)


def _published(split: str, name: str) -> Reader:
    if known_public_root() is None:
        raise _missing(
            name, "; or set TRAINFEED_PUBLIC to the public folder of a data centre, to read its set"
        )
    try:
        reader = open_public("mnist", split=split).reader()
    except (NotFoundError, RootError) as error:
        raise _missing(name, f", or let the public set be published: {error}") from error
    return map_blocks(_scaled, reader, form=RowForm.TUPLE)


def _scaled(block: Block) -> Block:
    pixels = block["image"].reshape(len(block["image"]), -1).astype(np.float32)
    return {"image": pixels / 255.0 * 2.0 - 1.0, "label": block["label"].astype(np.int64)}


def _find(name: str) -> Path | None:
    folder = _folder()
    return next((path for path in (folder / f"{name}.gz", folder / name) if path.exists()), None)


def _missing(name: str, remedy: str = "") -> NotFoundError:
    return NotFoundError(
        f"expected {name}.gz or {name} in {_folder()}; put the files of MNIST there{remedy}"
    )


def _folder() -> Path:
    return Path(local_source(common.DATA_HOME)) / "mnist"
