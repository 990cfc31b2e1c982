"""The types of readers and blocks, readers over functions, and passes that skip samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from itertools import islice
from types import GeneratorType
from typing import Any, Protocol, TypeAlias, runtime_checkable

from numpy.typing import NDArray

from trainfeed.errors import ReaderEndedError
from trainfeed.samples import rows_or_none

# --- The types of readers, and of blocks, which hold many samples

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


# --- Passes that skip samples at the beginning


@runtime_checkable
class SeekableReader(Protocol):
    """A reader that can skip samples without reading them."""

    def __call__(self) -> Iterator[Sample]:
        """Start a pass over the samples."""

    def samples_from(self, position: int) -> Iterator[Sample]:
        """Start a pass that skips the first ``position`` samples.

        Raises:
            ReaderEndedError: There are fewer samples; raised by the pass.
        """


def ended(position: int, num_samples: int) -> ReaderEndedError:
    """Return the error of a reader that has fewer samples than are to be skipped."""
    return ReaderEndedError(
        f"expected at least {position} samples as in the state, the reader has {num_samples}; this"
        " is not the reader that the state was taken from",
        num_samples=num_samples,
    )


def leave_out(samples: Iterator[Sample], position: int, *, first: int = 0) -> None:
    """Read and drop the samples before a position.

    Args:
        samples: The samples.
        position: Number of samples to skip.
        first: Number of samples that were skipped before.

    Raises:
        ReaderEndedError: There are fewer samples than ``position``.
    """
    first += sum(1 for _ in islice(samples, position - first))
    if first < position:
        raise ended(position, first)


def leave_out_rows(blocks: Iterator[Block], position: int, *, first: int = 0) -> Iterator[Block]:
    """Yield the rows of blocks from a position on.

    Args:
        blocks: The blocks.
        position: Number of samples to skip.
        first: Number of samples that were skipped before.

    Raises:
        ReaderEndedError: There are fewer samples than ``position``.
    """
    for block in blocks:
        skipped = min(position - first, num_rows(block))
        first += skipped
        if skipped < num_rows(block):
            yield {name: column[skipped:] for name, column in block.items()} if skipped else block
    if first < position:
        raise ended(position, first)


# --- Readers over functions that yield blocks or samples


class BlockSource:
    """A reader over the blocks that a function yields.

    Args:
        blocks: Called without arguments; every call starts a pass and yields blocks of one row or
            more.
        form: Form of a sample of a block.
        blocks_from: Called with a number of samples to skip; yields blocks of the rest, and raises
            ``ReaderEndedError`` if there are fewer. None means that skipped blocks are read and
            dropped.

    Attributes:
        form: As above.
        batched: False.
    """

    batched = False

    def __init__(
        self,
        blocks: Callable[[], Iterator[Block]],
        *,
        form: RowForm = RowForm.MAPPING,
        blocks_from: Callable[[int], Iterator[Block]] | None = None,
    ) -> None:
        self.form = form
        self._blocks = blocks
        self._blocks_from = blocks_from

    def __call__(self) -> Iterator[Sample]:
        """Start a pass over the samples."""
        return self.samples_from(0)

    def samples_from(self, position: int) -> Iterator[Sample]:
        """Start a pass that skips the first ``position`` samples.

        Raises:
            ReaderEndedError: There are fewer samples; raised by the pass.
        """
        with open_reader(lambda: self.blocks_from(position)) as blocks:
            for block in blocks:
                yield from rows(block, self.form)

    def blocks(self) -> Iterator[Block]:
        """Start a pass over the same samples as blocks."""
        return self._blocks()

    def blocks_from(self, position: int) -> Iterator[Block]:
        """Start a pass over blocks that skips the first ``position`` samples."""
        if not position:
            return self.blocks()
        if self._blocks_from is None:
            return self._read_anew(position)
        return self._blocks_from(position)

    def _read_anew(self, position: int) -> Iterator[Block]:
        with open_reader(self.blocks) as blocks:
            yield from leave_out_rows(blocks, position)


class SampleSource:
    """A reader over the samples that a function yields from a position on.

    Args:
        samples_from: Called with a number of samples to skip; yields the rest, and raises
            ``ReaderEndedError`` if there are fewer.
    """

    def __init__(self, samples_from: Callable[[int], Iterator[Sample]]) -> None:
        self._samples_from = samples_from

    def __call__(self) -> Iterator[Sample]:
        """Start a pass over the samples."""
        return self._samples_from(0)

    def samples_from(self, position: int) -> Iterator[Sample]:
        """Start a pass that skips the first ``position`` samples."""
        return self._samples_from(position)
