"""Runs passes over sets that are read by position: inline, by threads, or by processes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol

from trainfeed.errors import ConfigError
from trainfeed.loader._feeding import Feeding
from trainfeed.loader._open import OpenedSets
from trainfeed.loader._options import LoaderOptions
from trainfeed.loader._pass_plan import PassPlan, cuts_of, plans_of
from trainfeed.loader.order import Weight
from trainfeed.loader.sources import MapSource
from trainfeed.loader.state import (
    Batch,
    LoaderState,
    LoaderStats,
    Stretches,
    check_ahead,
    merged,
)
from trainfeed.loader.windows import Engine, Pass

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
        """Return how many reads were repeated."""
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
