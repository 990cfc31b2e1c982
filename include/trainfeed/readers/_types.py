"""The reader contract, and blocks: many samples at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import GeneratorType
from typing import Any, Protocol, TypeAlias, runtime_checkable

from numpy.typing import NDArray

from trainfeed.samples import rows_or_none

__all__ = [
    "Block",
    "BlockReader",
    "Reader",
    "ReaderLike",
    "RowForm",
    "Sample",
    "num_rows",
    "open_reader",
    "rows",
]

# A value, a tuple of values, or a mapping from field to value where a schema names the columns.
Sample: TypeAlias = Any

# Called without arguments, as often as wanted; every call gives a new iterator over all samples.
Reader: TypeAlias = Callable[[], Iterator[Sample]]

# What is taken for a reader: a list's ``__iter__`` is as good as a generator function.
ReaderLike: TypeAlias = Callable[[], Iterable[Sample]]

# Field → array of shape (n, *shape), the same n for all fields, in the order of the columns. A
# masked array where the field may be absent.
Block: TypeAlias = dict[str, NDArray[Any]]


class RowForm(Enum):
    """What a sample of a block looks like."""

    VALUE = "value"
    TUPLE = "tuple"
    MAPPING = "mapping"


@runtime_checkable
class BlockReader(Protocol):
    """A reader that can also give its samples many at a time.

    Both ways give the same samples in the same order. Decorators use blocks where they can.

    Attributes:
        form: What a sample of a block looks like.
        batched: Calling it gives batches (lists of samples), and every block is one batch.
    """

    form: RowForm
    batched: bool

    def __call__(self) -> Iterator[Sample]:
        """Start a pass over the samples."""

    def blocks(self) -> Iterator[Block]:
        """Start a pass over the same samples as blocks of one row or more."""


def num_rows(block: Block) -> int:
    """Return how many samples a block holds."""
    return len(next(iter(block.values())))


def rows(block: Block, form: RowForm) -> Iterator[Sample]:
    """Yield the samples of a block; arrays in them are views, absent values are None."""
    columns = [rows_or_none(column) for column in block.values()]
    if form is RowForm.VALUE:
        (column,) = columns
        return iter(column)
    tuples = zip(*columns, strict=True)
    if form is RowForm.TUPLE:
        return tuples
    names = list(block)
    return (dict(zip(names, row, strict=True)) for row in tuples)


@contextmanager
def open_reader(read: ReaderLike) -> Iterator[Iterator[Sample]]:
    """Start a pass, and end it with the block, so that files and threads go at once.

    Args:
        read: A reader, or the ``blocks`` of one.
    """
    iterator = iter(read())
    try:
        yield iterator
    finally:
        # Only what a pass owns: an open file that a reader hands out belongs to its maker.
        if isinstance(iterator, GeneratorType):
            iterator.close()
