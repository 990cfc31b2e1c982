"""Windows from worker processes, in order, through slots that are used again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, Self

from trainfeed.errors import ConfigError
from trainfeed.loader.columns import Columns, lend
from trainfeed.loader.order import Task
from trainfeed.loader.state import LoaderStats
from trainfeed.loader.windows import Window
from trainfeed.loader.workers._messages import Question
from trainfeed.loader.workers._slots import owned, unpack
from trainfeed.loader.workers._worker_team import WorkerPool
from trainfeed.thread_ties import require_owner

__all__ = ["RingFeed", "slot_plan"]

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
            memory = lend(self._pool.slots.slot(slot), ledger.lend(slot))
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
