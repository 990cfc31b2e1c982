"""Runs the passes of an epoch over sets that are read by position, with feeds that are kept."""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from typing import Final, NamedTuple, Protocol, Self

from trainfeed.core.thread_ties import new_lock
from trainfeed.errors import ConfigError
from trainfeed.loader.engines import Engine
from trainfeed.loader.feeds import (
    FetchAhead,
    FollowedFeed,
    InlineFeed,
    RingFeed,
    ThreadFeed,
    ThreadPlan,
    slot_plan,
)
from trainfeed.loader.map_source import MapSource
from trainfeed.loader.mixture import Weight
from trainfeed.loader.opening import LoaderOptions, OpenedSets
from trainfeed.loader.order import BatchCut, Task
from trainfeed.loader.passes import Pass, RunReader, WindowReader
from trainfeed.loader.state import (
    Batch,
    LoaderState,
    LoaderStats,
    Stretches,
    check_ahead,
    kept_parts,
    merged,
)
from trainfeed.loader.windows import Feed, ReadAhead
from trainfeed.loader.worker_messages import LoaderJob
from trainfeed.loader.worker_pool import WorkerPool

# --- The passes of an epoch, and of the epochs that follow it: one pass


class PassPlan(NamedTuple):
    """A pass over an epoch, or over the part of it up to a stretch that is left out.

    Attributes:
        cut: Which positions make up which batch.
        start: State of the loader at the first position.
        after: State of the loader after the last batch.
    """

    cut: BatchCut
    start: LoaderState
    after: LoaderState


def cuts_of(options: LoaderOptions, total: int, start: LoaderState) -> list[BatchCut]:
    """Return how the rest of an epoch is cut: in one, or around the stretches left out.

    Args:
        options: The settings of the loader.
        total: Samples of an epoch.
        start: A state in the epoch.
    """
    share, size, tail = options.share, options.batch_size, options.tail
    if not start.skips:
        return [BatchCut(total, start.position, share, size, tail)]
    kept = tuple(kept_parts(start.skips, start.epoch * total, total))
    return [
        BatchCut(stop, max(first, start.position), share, size, tail, kept)
        for first, stop in kept
        if start.position < stop
    ]


def plans_of(options: LoaderOptions, total: int, start: LoaderState) -> list[PassPlan]:
    """Return the passes of the rest of an epoch; those without a batch are left out."""
    cuts = [cut for cut in cuts_of(options, total, start) if cut.num_batches]
    states = [replace(start, position=cut.start) for cut in cuts] + [_next_epoch(start)]
    return [
        PassPlan(cut, state, after)
        for cut, (state, after) in zip(cuts, pairwise(states), strict=True)
    ]


def plans_from(options: LoaderOptions, total: int, start: LoaderState) -> Iterator[PassPlan]:
    """Yield the passes from a state on, to the end of the last epoch that is known to be read."""
    yield from plans_of(options, total, start)
    for _ in range(start.epoch + 1, options.epochs or 0):
        start = _next_epoch(start)
        yield from plans_of(options, total, start)


def _next_epoch(state: LoaderState) -> LoaderState:
    return replace(state, epoch=state.epoch + 1, position=0)


# --- The feeds of a loader's passes: opened inline, with threads or with processes, and kept


class RunningFeed:
    """A feed over a pass and those that follow it; as a context, what runs for it ends with it.

    Args:
        engine: Reads the sets.
        plans: The passes, the first one included.
        tasks: The windows of all passes.
        open_feed: Opens the feed of the windows.

    Attributes:
        engine: As above.
        due: The pass whose windows come next; None after the last one.
        feed: The feed.
    """

    def __init__(
        self,
        engine: Engine,
        plans: Iterator[PassPlan],
        tasks: AbstractContextManager[Iterator[Task]],
        open_feed: Callable[[Iterator[Task]], Feed],
    ) -> None:
        self.engine = engine
        self.due = next(plans, None)
        self._plans = plans
        with ExitStack() as stack:
            self.feed = stack.enter_context(open_feed(stack.enter_context(tasks)))
            self._stack = stack.pop_all()

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
        if FetchAhead.is_wanted(engine.children):
            share = engine.share(plan.cut)
            fetch = FetchAhead(tasks, engine.children, share, self._options.epochs)
            return RunningFeed(
                engine,
                plans(),
                fetch,
                lambda windows: FollowedFeed(self._feed(engine, plan, windows), fetch),
            )
        # In natural order the kernel reads ahead by itself.
        ahead = ReadAhead(tasks, engine.expect) if plan.start.window else nullcontext(tasks)
        return RunningFeed(engine, plans(), ahead, partial(self._feed, engine, plan))

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


# --- Runs passes over sets that are read by position: inline, by threads, or by processes

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
            ConfigError: The position is beyond the end of the epoch.
        """

    def reweighted(self, state: LoaderState, weights: Sequence[Weight], /) -> LoaderState:
        """Return a state from which other weights apply.

        Raises:
            ConfigError: The dataset is not a mixture, or the weights do not suit it.
        """

    def run(self, start: LoaderState) -> Iterator[Batch]:
        """Yield the batches from a state on."""

    def num_reread(self) -> int:
        """Return how often reads were repeated in this process."""

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
        self._order = _order_of(state)
        self._engine = sets.engine(state, stats)
        self._feeding = Feeding(options, stats, self._engine)
        self._tell_of_shared_chunks(state)

    def num_batches(self, state: LoaderState) -> int:
        """Return how many batches the whole epoch of a state has."""
        whole = replace(state, position=0)
        cuts = cuts_of(self._options, self._engine.total, whole)
        return sum(cut.num_batches for cut in cuts)

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
            self._engine = self._sets.engine(state, self._stats)
            self._feeding.change(self._engine)
            self._order = _order_of(state)
            self._tell_of_shared_chunks(state)

    def _tell_of_shared_chunks(self, state: LoaderState) -> None:
        """Warn if every rank reads the chunks of all ranks, which costs time and changes no row."""
        world_size = self._options.share.world_size
        # Samples of objects are loaded one by one, so a rank loads its own alone.
        has_chunks = not all(isinstance(each, MapSource) for each in self._sets.sources)
        if not state.window and world_size > 1 and has_chunks:
            _LOG.warning(
                "%d ranks read in the order of the set: every rank reads and decodes all of it and"
                " keeps its rows; with shuffle=True each reads its own part",
                world_size,
            )
        elif state.window and state.lanes % world_size:
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
        for plan in plans_of(self._options, engine.total, start):
            yield from self._run(engine, plan)

    def _run(self, engine: Engine, plan: PassPlan) -> Iterator[Batch]:
        a_pass = Pass(
            cut=plan.cut,
            state=plan.start,
            after=plan.after,
            sample_bytes=engine.sample_bytes,
            pad=lambda positions: engine.pad(positions, plan.start),
            copy=self._options.copy,
            stats=self._stats,
        )
        with self._feeding.running(engine, plan) as running:
            reader = engine.reader(plan.cut, plan.start, running.feed)
            yield from a_pass.batches(reader)
            running.finish(reader)

    def num_reread(self) -> int:
        """Return how often reads were repeated in this process."""
        return self._sets.num_reread()

    def close(self) -> None:
        """End processes and close files; safe to call twice."""
        self._feeding.close()
        self._sets.close()

    def _engine_of(self, start: LoaderState) -> Engine:
        """Return the engine for a state; one with another order may have been restored since."""
        if _order_of(start) == self._order:
            return self._engine
        return self._sets.engine(start, self._stats)


def _order_of(state: LoaderState) -> tuple[int, int]:
    return state.lanes, state.window
