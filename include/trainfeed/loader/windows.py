"""The protocol of a source, and one window of it: loaded whole by any thread or process."""

from __future__ import annotations

import os
import resource
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from queue import SimpleQueue
from typing import Final, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from trainfeed.core.thread_ties import patience_s
from trainfeed.errors import TrainFeedError
from trainfeed.loader.columns import Columns, Rows
from trainfeed.loader.memory import Memory
from trainfeed.loader.order import Order, Span, Task

# --- The protocol of a source: samples in chunks, which a loader reads in any order


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
        """Return how often reads were repeated."""

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


# --- The unit of work: one window of one lane, loaded whole by any thread or process

# A quarter of the lanes of the usual order. With fewer windows the disk is idle at times; with
# more they take page cache from the windows that are in use.
_NUM_AHEAD: Final = 4
# After _NUM_CACHED windows without a read from disk, only every _PROBE_EVERY-th is announced.
_NUM_CACHED: Final = 4
_PROBE_EVERY: Final = 32
# A disk that hangs cannot be interrupted; the end of a pass waits at most this long for it.
_JOIN_S: Final = 1.0


class Window(NamedTuple):
    """A loaded window.

    Attributes:
        columns: The samples. They hold the memory, which is used again when they are gone.
        num_samples: Number of samples.
        error: The reason why later samples were not loaded; None if all were.
    """

    columns: Columns
    num_samples: int
    error: BaseException | None = None


class Feed(Protocol):
    """Loads the windows of an iterator of tasks, in order, some of them ahead."""

    def next(self) -> Window:
        """Return the next window; an error of loading is in ``Window.error``.

        Raises:
            LoaderError: The window cannot come, because a worker has ended or does not answer.
        """

    @property
    def is_usable(self) -> bool:
        """Whether this process can go on to take windows."""

    def close(self) -> None:
        """Stop loading; safe to call twice."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, /, *_: object) -> None: ...


def expect_window(source: Source, order: Order, task: Task) -> None:
    """Let the kernel begin to read a window that is loaded soon."""
    source.expect(order.epoch(task.epoch).spans(task.lane, task.window))


def load_window(source: Source, order: Order, task: Task, memory: Memory) -> Loaded:
    """Load a window; errors are returned, not raised."""
    plan = order.epoch(task.epoch).window(task.lane, task.window)
    rows = (
        slice(task.first, None, task.stride)
        if plan.permutation is None
        else plan.permutation[task.first :: task.stride]
    )
    try:
        return source.load(plan.spans, rows, memory)
    except Exception as error:  # noqa: BLE001 - raised when these samples are due
        return Loaded({}, 0, error)


class _Wanted(NamedTuple):
    number: int
    task: Task


class ReadAhead:
    """The windows of a pass, in order; the kernel is advised of the next ones in time.

    Use it as a context manager, whose end stops the thread. One thread at a time may iterate.

    Args:
        tasks: The windows.
        expect: Lets the kernel begin to read a window; called in the thread. Its errors are
            ignored: loading the window raises them.
    """

    def __init__(self, tasks: Iterator[Task], expect: Callable[[Task], None]) -> None:
        self._tasks, self._expect = tasks, expect
        self._coming: deque[Task] = deque()
        self._queue: SimpleQueue[_Wanted | None] = SimpleQueue()
        self._num_drawn = self._num_taken = self._num_cached = 0
        self._thread: threading.Thread | None = None
        self._owner = os.getpid()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Task:
        """Return the next window.

        Raises:
            StopIteration: There are no more windows.
        """
        for task in islice(self._tasks, _NUM_AHEAD + 1 - len(self._coming)):
            self._coming.append(task)
            self._num_drawn += 1
            # The window that is loaded at once needs no advice.
            if len(self._coming) > 1:
                self._ask(_Wanted(self._num_drawn, task))
        if not self._coming:
            raise StopIteration
        self._num_taken += 1
        return self._coming.popleft()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread; a fork of the process that began the pass has no thread."""
        thread, self._thread = self._thread, None
        if thread is None or os.getpid() != self._owner:
            return
        # The thread skips every window up to _num_taken, so it reaches the None at once.
        self._num_taken = self._num_drawn
        self._queue.put(None)
        if thread is not threading.current_thread():
            thread.join(patience_s(_JOIN_S))

    def _ask(self, wanted: _Wanted) -> None:
        if self._num_cached >= _NUM_CACHED and wanted.number % _PROBE_EVERY:
            return
        if os.getpid() != self._owner:
            return
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name="trainfeed-read-ahead", daemon=True
            )
            self._thread.start()
        self._queue.put(wanted)

    def _work(self) -> None:
        while (wanted := self._queue.get()) is not None:
            # A window that was taken meanwhile is being loaded, or was used already.
            if wanted.number > self._num_taken:
                before = _num_blocks_read()
                with suppress(Exception):
                    self._expect(wanted.task)
                is_cached = _num_blocks_read() == before
                self._num_cached = self._num_cached + 1 if is_cached else 0


def _num_blocks_read() -> int:
    """Return the number of blocks that the kernel read from disks for this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock
