"""IDX files, the format of MNIST, ↔ samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from numpy.typing import NDArray

from trainfeed.errors import ConfigError
from trainfeed.files import FilePath
from trainfeed.readers import IdxHeader, idx, open_idx
from trainfeed.samples import Field, Schema


def read_idx_header(path: FilePath) -> IdxHeader:
    """Read the header of a file.

    Raises:
        FormatError: The file is not an IDX file.
        TruncatedError: The file ends inside the header; an uncompressed file also if values are
            missing.
    """
    with open_idx(path) as file:
        return file.header


def idx_schema(images: FilePath, labels: FilePath | None = None) -> Schema:
    """Return the schema of the samples: ``image`` and, with a file of labels, ``label``."""
    fields = []
    for name, path in (("image", images), ("label", labels)):
        if path is not None:
            header = read_idx_header(path)
            fields.append(Field(name, header.dtype.name, header.item_shape))
    return Schema(tuple(fields))


def iter_idx(path: FilePath, *, block_items: int | None = None) -> Iterator[NDArray[Any]]:
    """Yield the items of a file in blocks.

    Args:
        path: The file.
        block_items: Items per block, fewer in the last one; None for about 1 MiB.

    Yields:
        Arrays of shape ``(n, *item_shape)``, in the byte order of this machine, with memory of
        their own.

    Raises:
        FormatError: The file is not an IDX file, cannot be decompressed, or continues after its
            last item.
        TruncatedError: The file ends before its last item.
    """
    with open_idx(path) as file:
        yield from file.iter_blocks(block_items or file.header.block_items)


def iter_idx_pairs(images: FilePath, labels: FilePath) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield blocks of ``image`` and ``label``, in the form that ``convert_arrays`` takes.

    Raises:
        FormatError: A file is damaged, or they hold different numbers of items.
    """
    for block in idx(images, labels).blocks():
        yield dict(block)


def write_idx(file: BinaryIO, blocks: Iterable[NDArray[Any]], header: IdxHeader) -> None:
    """Write items.

    Args:
        file: A binary file.
        blocks: Arrays of shape ``(n, *header.item_shape)``.
        header: Number, type and shape of all items together.

    Raises:
        ConfigError: IDX does not have the type or shape, or the blocks do not match the header.
    """
    file.write(header.dump())
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
