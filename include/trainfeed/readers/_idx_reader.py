"""Readers over IDX files, the format of MNIST."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from trainfeed.errors import FormatError
from trainfeed.paths import FilePath
from trainfeed.readers._blocks import BlockSource
from trainfeed.readers._idx_file import open_idx
from trainfeed.readers._types import Block, BlockReader, RowForm

__all__ = ["idx"]


def idx(images: FilePath, labels: FilePath | None = None) -> BlockReader:
    """Return a reader over the items of an IDX file, or over pairs from two files.

    Args:
        images: The file of the first column; items have the shape and type of its header, in the
            byte order of this machine.
        labels: The file of the second column; None for samples of one value.

    Raises:
        NotFoundError: A file does not exist. All errors are raised by a pass.
        BadMagicError: A file is not an IDX file.
        TruncatedError: A file is shorter than its header announces; for an uncompressed file this
            is raised before the first item.
        FormatError: A file is longer than its header announces, or is not a plain file, or cannot
            be decompressed, or has items of 0 bytes or more than 16 MiB, or the files differ in
            length.
    """
    form = RowForm.VALUE if labels is None else RowForm.TUPLE
    read = functools.partial(_read, images, labels)
    return BlockSource(lambda: read(0), form=form, blocks_from=read)


def _read(images: FilePath, labels: FilePath | None, position: int) -> Iterator[Block]:
    with open_idx(images) as file:
        step = file.header.block_items
        values = file.iter_blocks(step, position=position)
        if labels is None:
            yield from ({"value": items} for items in values)
            return
        with open_idx(labels) as label_file:
            num_images, num_labels = file.header.num_items, label_file.header.num_items
            if num_images != num_labels:
                raise FormatError(
                    f"expected as many labels as images, got {num_labels} labels for {num_images}"
                    f" images in {images}",
                    path=str(labels),
                )
            label_values = label_file.iter_blocks(step, position=position)
            for image_items, label_items in zip(values, label_values, strict=True):
                yield {"image": image_items, "label": label_items}
