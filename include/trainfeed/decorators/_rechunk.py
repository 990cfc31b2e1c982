"""Cuts blocks into blocks of other sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainfeed.errors import SampleShapeError
from trainfeed.readers import Block, num_rows
from trainfeed.samples import joined_columns

__all__ = ["concatenated", "rechunked"]


def rechunked(blocks: Iterable[Block], sizes: Iterator[int]) -> Iterator[list[Block]]:
    """Yield lists of pieces with ``next(sizes)`` rows together, fewer at the end.

    The pieces are views of the blocks. A block is read when its rows are needed.
    """
    size = next(sizes)
    pieces: list[Block] = []
    have = 0
    for block in blocks:
        start, length = 0, num_rows(block)
        while length - start >= size - have:
            stop = start + size - have
            pieces.append(_cut(block, start, stop))
            yield pieces
            pieces, have, start = [], 0, stop
            size = next(sizes)
        if start < length:
            pieces.append(_cut(block, start, length))
            have += length - start
    if pieces:
        yield pieces


def concatenated(pieces: list[Block]) -> Block:
    """Return one block with the rows of all pieces; a single piece is returned unchanged.

    Raises:
        SampleShapeError: The pieces differ in fields, shapes or types.
    """
    first = pieces[0]
    if len(pieces) == 1:
        return first
    for piece in pieces:
        if piece.keys() != first.keys():
            raise SampleShapeError(
                f"expected blocks of the fields {list(first)}, got one of {list(piece)}"
            )
    columns = {}
    for name in first:
        parts = [piece[name] for piece in pieces]
        if any(p.shape[1:] != parts[0].shape[1:] or p.dtype != parts[0].dtype for p in parts):
            raise SampleShapeError(
                f"expected blocks of one shape and type in field {name!r}, got"
                f" {sorted({f'{part.dtype} {part.shape[1:]}' for part in parts})}"
            )
        columns[name] = joined_columns(parts)
    return columns


def _cut(block: Block, start: int, stop: int) -> Block:
    if start == 0 and stop == num_rows(block):
        return block
    return {name: column[start:stop] for name, column in block.items()}
