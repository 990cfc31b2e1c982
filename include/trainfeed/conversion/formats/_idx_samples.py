"""Samples out of IDX files, the format of MNIST, and into them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from numpy.typing import NDArray

from trainfeed.errors import ConfigError
from trainfeed.paths import FilePath
from trainfeed.readers import IdxHeader, idx, open_idx
from trainfeed.samples import Field, Schema

__all__ = ["IdxHeader", "idx_schema", "iter_idx", "iter_idx_pairs", "read_idx_header", "write_idx"]


def read_idx_header(path: FilePath) -> IdxHeader:
    """Read what a file says that it holds.

    Raises:
        FormatError: It is no IDX file.
        TruncatedError: It ends before; an uncompressed file also when its values do.
    """
    with open_idx(path) as file:
        return file.header


def idx_schema(images: FilePath, labels: FilePath | None = None) -> Schema:
    """Return the schema of the samples of a file: ``image`` and, if there are any, ``label``."""
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
        block_items: Items of a block, the last one excepted; None for about a MiB.

    Yields:
        Shape ``(n, *item_shape)``, in the byte order of this machine, the caller's own.

    Raises:
        FormatError: It is no IDX file, does not inflate, or goes on after its last item.
        TruncatedError: It ends before.
    """
    with open_idx(path) as file:
        yield from file.iter_blocks(block_items or file.header.block_items)


def iter_idx_pairs(images: FilePath, labels: FilePath) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield blocks of ``image`` and ``label``, as ``convert_arrays`` takes them.

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
        header: What they are together.

    Raises:
        ConfigError: IDX has no such type or shape, or the blocks are something else.
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
