"""The unit of work: one window of one lane, loaded whole, by whichever thread or process."""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self

from trainfeed.loader.columns import Columns, Memory
from trainfeed.loader.order import Order, Task
from trainfeed.loader.sources import Loaded, Source

__all__ = ["Feed", "Window", "expect_window", "load_window"]


class Window(NamedTuple):
    """A loaded window.

    Attributes:
        columns: Its samples. They hold the memory; when they are gone it is used again.
        num_samples: How many.
        error: What kept the rest of them from being loaded.
    """

    columns: Columns
    num_samples: int
    error: BaseException | None = None


class Feed(Protocol):
    """Loads the windows of an iterator of tasks, in its order, some of them ahead."""

    def next(self) -> Window:
        """Return the next window; an error of its loading is in it.

        Raises:
            LoaderError: It can never come, because a worker is gone or silent.
        """

    def close(self) -> None:
        """Stop loading; safe to call twice."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, /, *_: object) -> None: ...


def expect_window(source: Source, order: Order, task: Task) -> None:
    """Let the kernel begin to read a window, which will be loaded soon."""
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
    except Exception as error:  # noqa: BLE001 - it is raised when its samples are due
        return Loaded({}, 0, error)
