"""Runs passes over sets that are read by position: inline, by threads, or by processes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from trainfeed.errors import ConfigError
from trainfeed.loader._open import OpenedSets
from trainfeed.loader._options import LoaderOptions
from trainfeed.loader.order import BatchCut, Task, Weight
from trainfeed.loader.state import (
    Batch,
    LoaderState,
    LoaderStats,
    Stretches,
    check_ahead,
    kept_parts,
    merged,
)
from trainfeed.loader.windows import (
    Engine,
    Feed,
    InlineFeed,
    Pass,
    ReadAhead,
    ThreadFeed,
    ThreadPlan,
)
from trainfeed.loader.workers import LoaderJob, RingFeed, WorkerPool, slot_plan
from trainfeed.thread_ties import new_lock

__all__ = ["Runner", "SetsRunner"]

_LOG: Final = logging.getLogger(__name__)


class Runner(Protocol):
    """Makes the passes of a loader."""

    def num_batches(self, state: LoaderState, /) -> int:
        """Return how many batches the whole epoch of a state has."""

    def skipping(self, state: LoaderState, stretches: Stretches, /) -> LoaderState:
        """Return a state that leaves out stretches, too.

        Raises:
            ConfigError: Samples of them lie before the state, or nothing can be left out.
        """

    def restart(self, state: LoaderState) -> None:
        """Prepare for passes in the order of a state.

        Raises:
            ConfigError: The position is behind the end of the epoch.
        """

    def reweighted(self, state: LoaderState, weights: Sequence[Weight], /) -> LoaderState:
        """Return a state from which other weights apply.

        Raises:
            ConfigError: The dataset is not a mixture, or the weights do not suit it.
        """

    def run(self, start: LoaderState) -> Iterator[Batch]:
        """Yield the batches from a state on."""

    def num_reread(self) -> int:
        """Return how many reads were repeated."""

    def close(self) -> None:
        """End processes and close files; safe to call twice."""


class SetsRunner:
    """Makes passes over one set or a mixture; see ``Runner``.

    Args:
        sets: The sets to read.
        options: The settings of the loader.
        stats: The counters of the loader.
        state: The state of the first pass.
    """

    def __init__(
        self, sets: OpenedSets, options: LoaderOptions, stats: LoaderStats, state: LoaderState
    ) -> None:
        self._sets = sets
        self._options = options
        self._stats = stats
        self._pool: WorkerPool | None = None
        self._is_closed = False
        # Iterators may start and end in different threads: the lock guards the idle pool.
        self._lock = new_lock()
        self._order = _order_of(state)
        self._engine = sets.engine(state, stats)

    def num_batches(self, state: LoaderState) -> int:
        """Return how many batches the whole epoch of a state has."""
        return sum(cut.num_batches for cut in self._cuts(replace(state, position=0)))

    def skipping(self, state: LoaderState, stretches: Stretches) -> LoaderState:
        """Return a state that leaves out stretches, too; see ``Runner``."""
        place = state.epoch * self._engine.total + state.position
        check_ahead(stretches, state.skips, place)
        return replace(state, skips=merged([*state.skips, *stretches]))

    def restart(self, state: LoaderState) -> None:
        """Prepare for passes in the order of a state; see ``Runner``."""
        if state.position > self._engine.total:
            raise ConfigError(
                f"expected a position up to {self._engine.total}, the samples of an epoch, got"
                f" {state.position}"
            )
        self._sets.check_weights(state)
        if self._order != _order_of(state):
            self._end_workers()
            self._engine = self._sets.engine(state, self._stats)
            self._order = _order_of(state)
        world_size = self._options.share.world_size
        if state.lanes > 1 and state.lanes % world_size:
            _LOG.warning(
                "%d ranks share %d lanes: the order is the same, but every rank reads all of them",
                world_size,
                state.lanes,
            )

    def reweighted(self, state: LoaderState, weights: Sequence[Weight]) -> LoaderState:
        """Return a state from which other weights apply; see ``Runner``."""
        return self._sets.reweighted(state, weights)

    def run(self, start: LoaderState) -> Iterator[Batch]:
        """Yield the batches from a state on; see ``Runner``."""
        engine = self._engine_of(start)
        cuts = [cut for cut in self._cuts(start) if cut.num_batches]
        starts = [replace(start, position=cut.start) for cut in cuts]
        afters = [*starts[1:], replace(start, epoch=start.epoch + 1, position=0)]
        for cut, state, after in zip(cuts, starts, afters, strict=False):
            yield from self._run(engine, cut, state, after)

    def _run(
        self, engine: Engine, cut: BatchCut, start: LoaderState, after: LoaderState
    ) -> Iterator[Batch]:
        a_pass = Pass(
            cut=cut,
            state=start,
            after=after,
            sample_bytes=engine.sample_bytes,
            pad=lambda positions: engine.pad(positions, start),
            copy=self._options.copy,
            stats=self._stats,
        )
        with self._tasks(engine, cut, start) as tasks, self._feed(engine, cut, tasks) as feed:
            yield from a_pass.batches(engine.reader(cut, start, feed))

    def num_reread(self) -> int:
        """Return how many reads were repeated."""
        return self._sets.num_reread()

    def close(self) -> None:
        """End processes and close files; safe to call twice."""
        with self._lock:
            self._is_closed = True
        self._end_workers()
        self._sets.close()

    def _cuts(self, start: LoaderState) -> list[BatchCut]:
        """Return how the rest of an epoch is cut: in one, or around the stretches left out."""
        options, total = self._options, self._engine.total
        share, size, tail = options.share, options.batch_size, options.tail
        if not start.skips:
            return [BatchCut(total, start.position, share, size, tail)]
        kept = tuple(kept_parts(start.skips, start.epoch * total, total))
        return [
            BatchCut(stop, max(first, start.position), share, size, tail, kept)
            for first, stop in kept
            if start.position < stop
        ]

    def _engine_of(self, start: LoaderState) -> Engine:
        """Return the engine for a state; one with another order may have been restored since."""
        if _order_of(start) == self._order:
            return self._engine
        return self._sets.engine(start, self._stats)

    def _tasks(
        self, engine: Engine, cut: BatchCut, start: LoaderState
    ) -> AbstractContextManager[Iterator[Task]]:
        tasks = engine.tasks(cut, start)
        # In natural order the kernel reads ahead by itself.
        return ReadAhead(tasks, engine.expect) if start.window else nullcontext(tasks)

    def _feed(self, engine: Engine, cut: BatchCut, tasks: Iterator[Task]) -> Feed:
        options, period = self._options, engine.period(cut)
        # In a Python without the interpreter lock, threads take the place of processes.
        num_threads = options.num_threads or (0 if _is_locked() else options.num_workers)
        if num_threads:
            return ThreadFeed(
                tasks,
                engine.load,
                engine.pool,
                self._stats,
                plan=ThreadPlan(num_threads, options.ahead(period), options.timeout_s),
            )
        if options.num_workers:
            return self._ring(engine, tasks, period)
        return InlineFeed(tasks, engine.load, engine.pool, self._stats)

    def _ring(self, engine: Engine, tasks: Iterator[Task], period: int) -> Feed:
        options = self._options
        ahead = options.ahead(period)
        pool = self._take_pool()
        # Idle workers know one engine and one number of slots; any other pass needs new workers.
        usable = pool is not None and pool.is_usable and engine is self._engine
        if pool is None or not usable or pool.num_slots != period + ahead:
            if pool is not None:
                pool.close()
            pool = self._start_workers(engine, period + ahead)
        return RingFeed(
            tasks,
            pool,
            self._stats,
            # The consumer never holds the last slots, as many as there are workers, so loading
            # goes on.
            max_lent=period + ahead - min(ahead, options.num_workers),
            timeout_s=options.timeout_s,
            keep=partial(self._keep_pool, engine),
        )

    def _start_workers(self, engine: Engine, num_slots: int) -> WorkerPool:
        options = self._options
        slot_bytes = slot_plan(
            num_slots=num_slots,
            window_bytes=engine.window_bytes,
            max_bytes=options.max_bytes,
        )
        job = LoaderJob(engine.children, slot_bytes, num_slots)
        pool = WorkerPool(job, options.num_workers)
        ledger = pool.ledger
        self._stats.watch_lends(lambda: ledger.num_lent)
        return pool

    def _keep_pool(self, engine: Engine, pool: WorkerPool) -> None:
        """Keep idle workers for the next pass, if the order is still the one that they load."""
        with self._lock:
            if self._pool is None and not self._is_closed and engine is self._engine:
                self._pool = pool
                return
        pool.close()

    def _take_pool(self) -> WorkerPool | None:
        """Return the idle workers and remove them, so that no other pass takes them."""
        with self._lock:
            pool, self._pool = self._pool, None
            return pool

    def _end_workers(self) -> None:
        pool = self._take_pool()
        if pool is not None:
            pool.close()


def _order_of(state: LoaderState) -> tuple[int, int]:
    return state.lanes, state.window


def _is_locked() -> bool:
    """Return whether only one thread at a time runs Python code."""
    is_enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    return is_enabled is None or is_enabled()
