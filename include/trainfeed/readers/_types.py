"""The types of readers, and of blocks, which hold many samples."""

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

# A value, a tuple of values, or a mapping from field to value if a schema names the columns.
Sample: TypeAlias = Any

# A function without arguments; every call returns a new iterator over all samples.
Reader: TypeAlias = Callable[[], Iterator[Sample]]

# Accepted as a reader: a function that returns any iterable, such as the ``__iter__`` of a list.
ReaderLike: TypeAlias = Callable[[], Iterable[Sample]]

# Field → array of shape (n, *shape), with the same n for all fields, in the order of the columns;
# a masked array for an optional field.
Block: TypeAlias = dict[str, NDArray[Any]]


class RowForm(Enum):
    """The form of the samples of a block."""

    VALUE = "value"
    TUPLE = "tuple"
    MAPPING = "mapping"


@runtime_checkable
class BlockReader(Protocol):
    """A reader that can also give its samples as blocks.

    Samples and blocks give the same samples in the same order. Decorators use blocks if they can.

    Attributes:
        form: Form of a sample of a block.
        batched: Whether a call gives batches (lists of samples), and every block is one batch.
    """

    form: RowForm
    batched: bool

    def __call__(self) -> Iterator[Sample]:
        """Start a pass over the samples."""

    def blocks(self) -> Iterator[Block]:
        """Start a pass over the same samples as blocks of one row or more."""


def num_rows(block: Block) -> int:
    """Return the number of samples in a block."""
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
    """Start a pass, and end it with the context, so that files are closed and threads end at once.

    Args:
        read: A reader, or its method ``blocks``.
    """
    iterator = iter(read())
    try:
        yield iterator
    finally:
        # Only a generator belongs to the pass. An open file that a reader returns as its iterator
        # belongs to the code that opened it.
        if isinstance(iterator, GeneratorType):
            iterator.close()
