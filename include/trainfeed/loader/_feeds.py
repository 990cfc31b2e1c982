"""Loads windows in this process: when they are asked for, or ahead of that in threads."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from trainfeed.loader._memory import BufferPool, LentMemory
from trainfeed.loader._source import Loaded
from trainfeed.loader._stats import LoaderStats
from trainfeed.loader._window import Task, Window

__all__ = ["InlineFeed", "LoadTask", "ThreadFeed"]

# Loads a window of whichever set the task names.
LoadTask = Callable[[Task, LentMemory], Loaded]


class InlineFeed:
    """Loads a window when it is asked for.

    Args:
        tasks: The windows.
        load: Loads one.
        pool: Gives the memory.
        stats: Where to count.
    """

    def __init__(
        self, tasks: Iterator[Task], load: LoadTask, pool: BufferPool, stats: LoaderStats
    ) -> None:
        self._tasks = tasks
        self._load = load
        self._pool = pool
        self._stats = stats

    def next(self) -> Window:
        """Load the next window."""
        start_s = time.perf_counter()
        loaded = self._load(next(self._tasks), LentMemory(self._pool, is_lazy=True))
        seconds = time.perf_counter() - start_s
        self._stats.count_load(seconds, loaded.num_samples)
        self._stats.count_wait(seconds, 0)
        return Window(*loaded)

    def close(self) -> None:
        """Do nothing; there is nothing to stop."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ThreadFeed:
    """Loads windows ahead in threads, which pays as far as decoding leaves the interpreter lock.

    Args:
        tasks: The windows.
        load: Loads one; called in the threads.
        pool: Gives the memory.
        stats: Where to count.
        num_threads: How many threads.
        ahead: How many windows are loaded before they are asked for.
    """

    def __init__(
        self,
        tasks: Iterator[Task],
        load: LoadTask,
        pool: BufferPool,
        stats: LoaderStats,
        *,
        num_threads: int,
        ahead: int,
    ) -> None:
        self._tasks = tasks
        self._load = load
        self._pool = pool
        self._stats = stats
        self._ahead = ahead
        self._threads = ThreadPoolExecutor(num_threads, "trainfeed-loader")
        self._running: deque[Future[Loaded]] = deque()

    def next(self) -> Window:
        """Wait for the next window, and start another one."""
        self._fill(self._ahead + 1)
        future = self._running.popleft()
        self._fill(self._ahead)
        start_s = time.perf_counter()
        loaded = future.result()
        self._stats.count_wait(time.perf_counter() - start_s, len(self._running))
        return Window(*loaded)

    def close(self) -> None:
        """Wait for what is being loaded, and end the threads; safe to call twice."""
        for future in self._running:
            future.cancel()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._running.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self, wanted: int) -> None:
        while len(self._running) < wanted and (task := next(self._tasks, None)) is not None:
            self._running.append(self._threads.submit(self._timed, task))

    def _timed(self, task: Task) -> Loaded:
        start_s = time.perf_counter()
        loaded = self._load(task, LentMemory(self._pool))
        self._stats.count_load(time.perf_counter() - start_s, loaded.num_samples)
        return loaded
