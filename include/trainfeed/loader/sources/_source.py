"""The protocol of a source: samples in chunks, which a loader reads in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import TrainFeedError
from trainfeed.loader.columns import Columns, Memory, Rows
from trainfeed.loader.order import Span

__all__ = ["Loaded", "Source", "count_spans", "rows_before", "try_each"]


class Loaded(NamedTuple):
    """The result of loading a window.

    Attributes:
        columns: The samples.
        num_samples: Number of samples.
        error: The reason why later samples were not loaded; None if all were.
    """

    columns: Columns
    num_samples: int
    error: BaseException | None = None


class Source(Protocol):
    """Samples in chunks. Worker processes get a pickled copy; threads share the object.

    Attributes:
        digest: Identifies the content: sources with equal digests have equal samples.
        num_samples: Samples per chunk, none of them empty, shape ``(num_chunks,)``.
        num_bytes: Bytes per chunk before compression, likewise.
        natural_window_bytes: Bytes that are read at once in natural order.
    """

    @property
    def digest(self) -> str: ...

    @property
    def num_samples(self) -> NDArray[np.int64]: ...

    @property
    def num_bytes(self) -> NDArray[np.int64]: ...

    @property
    def natural_window_bytes(self) -> int: ...

    def load(self, spans: Sequence[Span], rows: Rows, memory: Memory, /) -> Loaded:
        """Read spans and return ``rows`` of their samples.

        Args:
            spans: The samples to read; numbered through from the first span's first sample.
            rows: A slice, or an array of numbers in any order.
            memory: Memory for the arrays.

        Raises:
            FormatError: The stored data is damaged.
            StorageError: The file system failed.
        """

    def expect(self, spans: Sequence[Span], /) -> None:
        """Let the kernel begin to read spans that are loaded soon.

        The call does not wait for the disk, and leaves errors to ``load``.
        """

    def output_bytes(self, window_bytes: int, /) -> int | None:
        """Return the bytes that ``load`` needs for ``window_bytes`` of chunks; None if unknown."""

    def num_reread(self) -> int:
        """Return how many reads were repeated."""

    def close(self) -> None:
        """Close files; a later load opens them again."""


def count_spans(spans: Sequence[Span]) -> int:
    """Return the number of samples in spans."""
    return sum(span.stop - span.start for span in spans)


def try_each(spans: Sequence[Span], read: Callable[[Span], None]) -> TrainFeedError | None:
    """Read spans up to the first that cannot be read; return the error of that span."""
    for span in spans:
        try:
            read(span)
        except TrainFeedError as error:
            return error
    return None


def rows_before(rows: Rows, num_good: int, error: TrainFeedError) -> slice:
    """Return the rows before the first sample that cannot be read.

    Raises:
        TrainFeedError: The rows are permuted, so no row is certain to come before that sample; or
            no row comes before it.
    """
    if not isinstance(rows, slice) or rows.start >= num_good:
        raise error
    return slice(rows.start, num_good, rows.step)
