"""Windows for a pass, in order: loaded on request, ahead in threads, or by worker processes."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from trainfeed.core.thread_ties import patience_s, require_owner
from trainfeed.errors import ConfigError, LoaderError
from trainfeed.loader.chunk_samples import ShardSource
from trainfeed.loader.columns import Columns
from trainfeed.loader.memory import LentMemory, LentPool
from trainfeed.loader.order import EpochPart, Order, RankShare, Task
from trainfeed.loader.state import LoaderStats
from trainfeed.loader.windows import Feed, Loaded, Source, Window
from trainfeed.loader.worker_messages import Question, owned, unpack
from trainfeed.loader.worker_pool import WorkerPool

if TYPE_CHECKING:
    from trainfeed.remote.shards import Way

# --- Loads windows in this process: on request, or ahead of requests in threads

# Loads the window that a task names, into the given memory.
LoadTask = Callable[[Task, LentMemory], Loaded]

# A read that hangs cannot be interrupted; the end of a pass waits at most this long for it.
_JOIN_S: Final = 5.0


class InlineFeed:
    """Loads a window when it is requested.

    Args:
        tasks: The windows, in order.
        load: Loads a window.
        pool: Lends the memory.
        stats: The counters of the loader.
    """

    def __init__(
        self, tasks: Iterator[Task], load: LoadTask, pool: LentPool, stats: LoaderStats
    ) -> None:
        self._tasks = tasks
        self._load = load
        self._pool = pool
        self._stats = stats

    def next(self) -> Window:
        """Load the next window."""
        start_s = time.perf_counter()
        loaded = self._load(next(self._tasks), LentMemory(self._pool))
        seconds = time.perf_counter() - start_s
        self._stats.count_load(seconds, loaded.num_samples)
        self._stats.count_wait(seconds, 0)
        return Window(*loaded)

    @property
    def is_usable(self) -> bool:
        """True: windows are loaded here."""
        return True

    def close(self) -> None:
        """Do nothing; there is nothing to stop."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ThreadPlan(NamedTuple):
    """How threads load windows.

    Attributes:
        num_threads: Largest number of threads.
        ahead: Number of windows that are loaded before they are requested.
        timeout_s: Seconds that a requested window may take.
    """

    num_threads: int
    ahead: int
    timeout_s: float


class ThreadFeed:
    """Loads windows ahead in threads; useful where decoding releases the interpreter lock.

    Args:
        tasks: The windows, in order.
        load: Loads a window; called in the threads.
        pool: Lends the memory.
        stats: The counters of the loader.
        plan: Number of threads, number of windows ahead, and the timeout.
    """

    def __init__(
        self,
        tasks: Iterator[Task],
        load: LoadTask,
        pool: LentPool,
        stats: LoaderStats,
        *,
        plan: ThreadPlan,
    ) -> None:
        self._tasks = tasks
        self._load = load
        self._pool = pool
        self._stats = stats
        self._num_threads, self._ahead = plan.num_threads, plan.ahead
        self._timeout_s = min(plan.timeout_s, threading.TIMEOUT_MAX)
        self._threads: list[threading.Thread] = []
        self._queue: SimpleQueue[tuple[Task, Future[Loaded]] | None] = SimpleQueue()
        self._running: deque[tuple[Task, Future[Loaded]]] = deque()
        self._failure: LoaderError | None = None
        self._owner = os.getpid()

    def next(self) -> Window:
        """Wait for the next window, and start another one.

        Raises:
            LoaderError: The window was not loaded in time; every later call fails at once. Or this
                process is a fork of the one that began the pass.
        """
        require_owner(self._owner)
        if self._failure is not None:
            raise self._failure
        # One task more than is loaded ahead: the window that is returned now.
        self._fill(self._ahead + 1)
        task, future = self._running.popleft()
        self._fill(self._ahead)
        start_s = time.perf_counter()
        try:
            loaded = future.result(self._timeout_s)
        except TimeoutError:
            self._failure = _late(task, self._timeout_s)
            raise self._failure from None
        self._stats.count_wait(time.perf_counter() - start_s, len(self._running))
        return Window(*loaded)

    @property
    def is_usable(self) -> bool:
        """Whether this process began the pass, and every window has come in time."""
        return self._failure is None and os.getpid() == self._owner

    def close(self) -> None:
        """End the threads, after a limited wait for windows that are being loaded; safe to repeat.

        The wait is less than a second when an error is being raised.
        """
        if os.getpid() != self._owner:
            return  # a fork has no threads; a thread of the parent may have held a future's lock
        for _, future in self._running:
            future.cancel()
        self._running.clear()
        for _ in self._threads:
            self._queue.put(None)
        threads, self._threads = self._threads, []
        # The garbage collector may close a pass in one of these threads, while that holds a lock
        # that the other threads wait for.
        if threading.current_thread() in threads:
            return
        end_s = time.monotonic() + patience_s(_JOIN_S)
        for thread in threads:
            thread.join(max(0.0, end_s - time.monotonic()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self, wanted: int) -> None:
        while len(self._running) < wanted and (task := next(self._tasks, None)) is not None:
            self._running.append((task, Future()))
            self._queue.put(self._running[-1])
            if len(self._threads) < self._num_threads:
                self._start_thread()

    def _start_thread(self) -> None:
        # Not an executor: its threads would keep the interpreter from ending while one of them
        # hangs.
        thread = threading.Thread(target=self._work, name="trainfeed-loader", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            task, future = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(self._timed(task))
                except BaseException as error:  # noqa: BLE001 - raised in ``next``
                    future.set_exception(error)
            # While the thread waits for the next item, these names must not keep a window's memory.
            del item, task, future

    def _timed(self, task: Task) -> Loaded:
        start_s = time.perf_counter()
        loaded = self._load(task, LentMemory(self._pool))
        self._stats.count_load(time.perf_counter() - start_s, loaded.num_samples)
        return loaded


def _late(task: Task, timeout_s: float) -> LoaderError:
    return LoaderError(
        f"window {task.window} of lane {task.lane} in epoch {task.epoch} was not loaded within"
        f" {timeout_s:g} s; look for a read that hangs, or raise timeout_s if samples take that"
        " long"
    )


# --- Windows of sets at a store: their chunks are fetched ahead, along a plan that others see


@dataclass
class _Followed:
    """A set at a store, and how far a pass is in it.

    Attributes:
        way: Fetches its chunks.
        order: Its order.
        epoch: The epoch that was published last, with the one after it.
    """

    way: Way
    order: Order
    epoch: int = -1


class FetchAhead:
    """The windows of a pass; the chunks of those at a store are fetched ahead.

    Use it as a context manager, whose end stops the threads. One thread at a time may iterate.

    Args:
        tasks: The windows.
        children: The sets and their orders.
        share: Rank and world size for which the windows are loaded.
        epochs: Number of epochs that are read, if it is known.
    """

    def __init__(
        self,
        tasks: Iterator[Task],
        children: Sequence[tuple[Source, Order]],
        share: RankShare,
        epochs: int | None,
    ) -> None:
        self._tasks = tasks
        self._share, self._epochs = share, epochs
        self._sets = {
            number: _Followed(way, order)
            for number, (source, order) in enumerate(children)
            if (way := _way_of(source)) is not None
        }
        # Windows that were handed out and may not be loaded yet: their chunks must stay.
        self._coming: deque[Task] = deque()

    @staticmethod
    def is_wanted(children: Sequence[tuple[Source, Order]]) -> bool:
        """Return whether a set is at a store."""
        return any(isinstance(s, ShardSource) and s.files.way is not None for s, _ in children)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Task:
        """Return the next window.

        Raises:
            StopIteration: There are no more windows.
        """
        task = next(self._tasks)
        self._coming.append(task)
        found = self._sets.get(task.child)
        if found is not None and found.epoch < 0:
            self._begin(found, task)
        return task

    def taken(self) -> None:
        """Tell that the window which was handed out first is loaded."""
        task = self._coming.popleft()
        if (found := self._sets.get(task.child)) is None:
            return
        following = next((each for each in self._coming if each.child == task.child), None)
        if following is None:
            found.way.passed(task.epoch * found.order.total + task.need + 1)
        elif following.epoch > found.epoch:
            self._begin(found, following)
        else:
            found.way.passed(following.epoch * found.order.total + following.need)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for found in self._sets.values():
            found.way.pause()

    def _begin(self, found: _Followed, task: Task) -> None:
        """Publish what is read of a set from a window on, and in the epoch after it."""
        found.epoch, total = task.epoch, found.order.total
        rows = []
        for epoch, start in ((task.epoch, task.need), (task.epoch + 1, 0)):
            if epoch == task.epoch or self._epochs is None or epoch < self._epochs:
                part = EpochPart(found.order.epoch(epoch), self._share, start, total)
                needs, chunks = part.uses()
                rows.append((needs + epoch * total, chunks))
        needs, chunks = (np.concatenate(each) for each in zip(*rows, strict=True))
        found.way.begin(needs, chunks, task.epoch * total + task.need)


def _way_of(source: Source) -> Way | None:
    return source.files.way if isinstance(source, ShardSource) else None


class FollowedFeed:
    """A feed that tells when its windows are loaded.

    Args:
        feed: The feed.
        ahead: Its windows.
    """

    def __init__(self, feed: Feed, ahead: FetchAhead) -> None:
        self._feed = feed
        self._ahead = ahead

    def next(self) -> Window:
        """Return the next window; see ``Feed``."""
        window = self._feed.next()
        self._ahead.taken()
        return window

    @property
    def is_usable(self) -> bool:
        """Whether this process can go on to take windows."""
        return self._feed.is_usable

    def close(self) -> None:
        """Stop loading; safe to call twice."""
        self._feed.close()

    def __enter__(self) -> Self:
        self._feed.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._feed.__exit__(kind, *error)


# --- Windows from worker processes, in order, through slots that are used again and again

_PAGE_BYTES: Final = 4096
# Shared memory of all slots when the size of a window is unknown: four times the windows of the
# default order.
_USUAL_BYTES: Final = 256 << 20


class RingFeed:
    """Asks workers for windows as long as there are free slots.

    A slot is not free while the consumer keeps an array of it. When the consumer holds
    ``max_lent`` slots, further windows are copied out of their slots, so that it may keep any
    number of arrays and workers still get slots.

    Args:
        tasks: The windows, in order.
        pool: The workers.
        stats: The counters of the loader.
        max_lent: Number of slots that the consumer may hold.
        timeout_s: Seconds that a window may take.
        keep: Receives the idle workers at the end of a complete pass; otherwise they are ended.
    """

    def __init__(
        self,
        tasks: Iterator[Task],
        pool: WorkerPool,
        stats: LoaderStats,
        *,
        max_lent: int,
        timeout_s: float,
        keep: Callable[[WorkerPool], None],
    ) -> None:
        self._tasks = tasks
        self._pool = pool
        self._stats = stats
        self._max_lent = max_lent
        self._timeout_s = timeout_s
        self._keep = keep
        self._num_asked = self._num_taken = 0
        self._waiting: Task | None = next(tasks, None)

    def next(self) -> Window:
        """Wait for the next window, and request further ones; see ``WorkerPool.wait_for``.

        Raises:
            LoaderError: This process is a fork of the one that started the workers.
        """
        require_owner(self._pool.owner)
        self._ask()
        start_s = time.perf_counter()
        depth = self._pool.num_open
        answer, slot = self._pool.wait_for(self._num_taken, self._timeout_s)
        self._stats.count_wait(time.perf_counter() - start_s, depth)
        self._stats.count_load(answer.seconds, answer.num_samples)
        if answer.num_reread:
            self._stats.count("rereads", answer.num_reread)
        self._num_taken += 1
        ledger = self._pool.ledger
        columns: Columns
        if answer.packed is None:
            self._stats.count("oversize_windows")
            # A window larger than a slot comes through the connection, and its slot is free at
            # once.
            columns = answer.columns or {}
            ledger.give_back(slot)
        elif ledger.num_lent >= self._max_lent:
            self._stats.count("copied_windows")
            # The consumer holds too many slots: a copy frees this one, so that workers go on.
            columns = owned(unpack(answer.packed, self._pool.slots.slot(slot)))
            ledger.give_back(slot)
        else:
            # The slot is lent without a copy, and returned with the last array that views it.
            memory = ledger.lend(slot, self._pool.slots.slot(slot))
            columns = unpack(answer.packed, memory)
        self._ask()
        return Window(columns, answer.num_samples, answer.error)

    @property
    def is_usable(self) -> bool:
        """Whether this process started the workers, and all of them are alive."""
        return self._pool.is_usable

    def close(self) -> None:
        """End the workers; safe to call twice."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After an iterator that was left early, answers are still on their way: end the workers.
        if kind is None and self._num_asked == self._num_taken:
            self._keep(self._pool)
        else:
            self.close()

    def _ask(self) -> None:
        pool = self._pool
        while (
            self._waiting is not None
            and not pool.is_busy
            and (slot := pool.ledger.take()) is not None
        ):
            pool.ask(Question(self._num_asked, slot, self._waiting))
            self._num_asked += 1
            self._waiting = next(self._tasks, None)


def slot_plan(*, num_slots: int, window_bytes: int | None, max_bytes: int | None) -> int:
    """Return the size of a slot.

    Args:
        num_slots: Number of slots.
        window_bytes: Bytes that a window needs; None if unknown, then the limit is divided evenly.
        max_bytes: Limit for all slots together; None takes as much as the windows need.

    Raises:
        ConfigError: The windows need more than ``max_bytes``.
    """
    if max_bytes is None:
        max_bytes = max(_USUAL_BYTES, num_slots * ((window_bytes or 0) + _PAGE_BYTES))
    # Slots are whole pages: the limit per slot is rounded down, the need is rounded up.
    most_bytes = max_bytes // num_slots // _PAGE_BYTES * _PAGE_BYTES
    need_bytes = most_bytes if window_bytes is None else window_bytes
    slot_bytes = -(-max(1, need_bytes) // _PAGE_BYTES) * _PAGE_BYTES
    if slot_bytes > most_bytes:
        raise ConfigError(
            f"{num_slots} slots of {slot_bytes} bytes need max_bytes={slot_bytes * num_slots}, got"
            f" {max_bytes}; raise it, or lower window_bytes, prefetch or num_workers"
        )
    return slot_bytes
