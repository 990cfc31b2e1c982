"""The feeds of a loader's passes: opened inline, with threads or with processes, and kept.

If another pass is known to follow, its windows follow those of the pass in one queue: while the
last batches of a pass are consumed, the feed loads the first windows of the next pass, within the
same number of windows ahead. At the end of the pass the feed is kept, and the next pass takes it if
it begins at the place that was expected; otherwise the feed is ended.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import chain
from typing import Self

from trainfeed.loader._options import LoaderOptions
from trainfeed.loader._pass_plan import PassPlan, plans_from
from trainfeed.loader.order import Task
from trainfeed.loader.state import LoaderStats
from trainfeed.loader.windows import (
    Engine,
    Feed,
    InlineFeed,
    ReadAhead,
    RunReader,
    ThreadFeed,
    ThreadPlan,
    WindowReader,
)
from trainfeed.loader.workers import LoaderJob, RingFeed, WorkerPool, slot_plan
from trainfeed.thread_ties import new_lock

__all__ = ["Feeding", "RunningFeed"]


class RunningFeed:
    """A feed over a pass and those that follow it; as a context, what runs for it ends with it.

    Args:
        engine: Reads the sets.
        plans: The passes, the first one included.

    Attributes:
        engine: As above.
        due: The pass whose windows come next; None after the last one.
    """

    def __init__(self, engine: Engine, plans: Iterator[PassPlan]) -> None:
        self.engine = engine
        self.due = next(plans, None)
        self._plans = plans
        self._stack = ExitStack()
        self._feed: Feed | None = None

    def start(
        self, tasks: AbstractContextManager[Iterator[Task]], feed: Callable[[Iterator[Task]], Feed]
    ) -> Self:
        """Open the feed of the tasks of all passes."""
        with ExitStack() as stack:
            self._feed = stack.enter_context(feed(stack.enter_context(tasks)))
            self._stack = stack.pop_all()
        return self

    @property
    def feed(self) -> Feed:
        """The feed."""
        if self._feed is None:
            raise AssertionError("start comes first")
        return self._feed

    def finish(self, reader: WindowReader | RunReader) -> None:
        """Go to the next pass, after ``reader`` has read this one to its end.

        The feed cannot go on if the reader has left windows of its pass: they would come first.
        """
        self.due = next(self._plans, None) if reader.is_done else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*error)  # type: ignore[arg-type]


class Feeding:
    """Opens the feeds of passes; keeps idle workers, and a feed that goes on with the next pass.

    Args:
        options: The settings of the loader.
        stats: The counters of the loader.
        engine: The engine whose feeds and workers are kept.
    """

    def __init__(self, options: LoaderOptions, stats: LoaderStats, engine: Engine) -> None:
        self._options = options
        self._stats = stats
        self._engine = engine
        self._pool: WorkerPool | None = None
        self._kept: list[RunningFeed] = []
        self._is_closed = False
        # Iterators may start and end in different threads: the lock guards what is kept.
        self._lock = new_lock()
        # The threads of a feed hold the feed, so they end with the loader only if they are told to.
        finalizer = weakref.finalize(self, _end, self._kept)
        finalizer.atexit = False

    @contextmanager
    def running(self, engine: Engine, plan: PassPlan) -> Iterator[RunningFeed]:
        """Return the feed of a pass; afterwards it is kept, unless it has ended or failed."""
        with ExitStack() as stack:
            feed = stack.enter_context(self._taken(engine, plan) or self._started(engine, plan))
            yield feed
            if feed.due is not None and self._keep(feed):
                stack.pop_all()

    def change(self, engine: Engine) -> None:
        """End what is kept, and keep feeds and workers of another engine from now on."""
        self._end_kept()
        self._engine = engine

    def close(self) -> None:
        """End what is kept, and keep nothing from now on; safe to call twice."""
        with self._lock:
            self._is_closed = True
        self._end_kept()

    def _started(self, engine: Engine, plan: PassPlan) -> RunningFeed:
        plans = partial(plans_from, self._options, engine.total, plan.start)
        tasks = chain.from_iterable(engine.tasks(each.cut, each.start) for each in plans())
        # In natural order the kernel reads ahead by itself.
        ahead = ReadAhead(tasks, engine.expect) if plan.start.window else nullcontext(tasks)
        return RunningFeed(engine, plans()).start(ahead, partial(self._feed, engine, plan))

    def _taken(self, engine: Engine, plan: PassPlan) -> RunningFeed | None:
        """Return the kept feed if it goes on with this pass; otherwise end it."""
        with self._lock:
            kept = self._kept.pop() if self._kept else None
        if kept is None or (kept.engine is engine and kept.due == plan and kept.feed.is_usable):
            return kept
        with kept:
            return None

    def _keep(self, feed: RunningFeed) -> bool:
        """Keep a feed for the next pass, in the place of an earlier one; return whether it is."""
        with self._lock:
            if self._is_closed or feed.engine is not self._engine:
                return False
            earlier, self._kept[:] = self._kept[:], [feed]
        _end(earlier)
        return True

    def _feed(self, engine: Engine, plan: PassPlan, tasks: Iterator[Task]) -> Feed:
        options, period = self._options, engine.period(plan.cut)
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
            # The consumer leaves as many slots free as there are workers, so loading always
            # continues.
            max_lent=period + ahead - min(ahead, options.num_workers),
            timeout_s=options.timeout_s,
            keep=partial(_keep_idle, weakref.ref(self), engine),
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

    def keep_pool(self, engine: Engine, pool: WorkerPool) -> None:
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

    def _end_kept(self) -> None:
        with self._lock:
            kept, self._kept[:] = self._kept[:], []
        _end(kept)
        pool = self._take_pool()
        if pool is not None:
            pool.close()


def _end(kept: list[RunningFeed]) -> None:
    while kept:
        with kept.pop():
            pass


def _keep_idle(feeding: weakref.ref[Feeding], engine: Engine, pool: WorkerPool) -> None:
    """Hand idle workers to the loader that has started them, or end them with it."""
    if (found := feeding()) is None:
        pool.close()
    else:
        found.keep_pool(engine, pool)


def _is_locked() -> bool:
    """Return whether only one thread at a time runs Python code."""
    is_enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    return is_enabled is None or is_enabled()
