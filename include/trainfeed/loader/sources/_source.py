"""What a loader reads from: samples in chunks, any of them at any time."""

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
    """What came of loading a window.

    Attributes:
        columns: The samples.
        num_samples: How many.
        error: What kept the rest from being loaded; the samples before it are there.
    """

    columns: Columns
    num_samples: int
    error: BaseException | None = None


class Source(Protocol):
    """Samples in chunks. It is pickled to worker processes; threads share it.

    Attributes:
        digest: Identifies the content: equal digests, equal samples.
        num_samples: Samples per chunk, none of them empty, shape ``(num_chunks,)``.
        num_bytes: Bytes per chunk before compression, likewise.
        natural_window_bytes: How much is read at once in natural order.
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
        """Read spans and return ``rows`` of their samples, counted from the first span's first.

        Args:
            spans: What to read.
            rows: A slice, or numbers in any order.
            memory: Where arrays may be put.

        Raises:
            FormatError: What is stored is damaged.
            StorageError: The file system failed.
        """

    def expect(self, spans: Sequence[Span], /) -> None:
        """Let the kernel begin to read spans, which ``load`` will be asked for soon.

        Does not wait for the disk; what is wrong is for ``load`` to find.
        """

    def output_bytes(self, window_bytes: int, /) -> int | None:
        """Return how much memory ``load`` needs for so many bytes of chunks; None if unknown."""

    def num_reread(self) -> int:
        """Return how often a read was tried again."""

    def close(self) -> None:
        """Close files; loading opens them again."""


def count_spans(spans: Sequence[Span]) -> int:
    """Return how many samples spans hold."""
    return sum(span.stop - span.start for span in spans)


def try_each(spans: Sequence[Span], read: Callable[[Span], None]) -> TrainFeedError | None:
    """Read spans up to the first that cannot be read; return what is wrong with that."""
    for span in spans:
        try:
            read(span)
        except TrainFeedError as error:
            return error
    return None


def rows_before(rows: Rows, num_good: int, error: TrainFeedError) -> slice:
    """Return those rows that lie before what cannot be read.

    Raises:
        TrainFeedError: They are permuted, so that none comes surely before it.
    """
    if not isinstance(rows, slice) or rows.start >= num_good:
        raise error
    return slice(rows.start, num_good, rows.step)
