"""The passes of an epoch, and of the epochs that follow it: one pass, or several around stretches.

Plans know nothing of the runner: threads that load ahead hold them, and must not hold the loader.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from trainfeed.loader._options import LoaderOptions
from trainfeed.loader.order import BatchCut
from trainfeed.loader.state import LoaderState, kept_parts

__all__ = ["PassPlan", "cuts_of", "plans_from", "plans_of"]


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
