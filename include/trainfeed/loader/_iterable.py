"""Iterables and readers, which can only be read from the start."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from trainfeed.decorators import buffered, is_batch, multiprocess_reader, set_epoch
from trainfeed.errors import ConfigError, LoaderError
from trainfeed.loader._options import LoaderOptions
from trainfeed.loader.columns import FreshMemory
from trainfeed.loader.order import Tail, Weight
from trainfeed.loader.sources import content_of, stack
from trainfeed.loader.state import Batch, LoaderState, LoaderStats, Stretches, Weights
from trainfeed.readers import ReaderLike, open_reader

__all__ = ["IterableSet"]

_UNBATCHED: Final = "give the loader the reader without batch(): the loader makes the batches"


@dataclass(frozen=True)
class IterableSet:
    """An iterable, or a reader, that a loader reads from start to end.

    A state counts samples; restoring a state reads and drops the samples before it. Every rank
    reads all samples and keeps its share.

    Attributes:
        reader: A callable that returns an iterator.
        options: The settings of the loader.
        digest: Identifies the dataset by its ``content_digest``, or by its type.
        stats: The counters of the loader.
    """

    reader: ReaderLike
    options: LoaderOptions
    digest: str
    stats: LoaderStats

    @classmethod
    def of(cls, dataset: Any, options: LoaderOptions, stats: LoaderStats) -> IterableSet:
        """Check that the options suit an iterable.

        Raises:
            ConfigError: An option cannot be used with an iterable.
        """
        if options.shuffle:
            raise ConfigError(
                "expected no shuffle=True beside an iterable, whose order is its own; shuffle it"
                " with trainfeed.decorators.shuffle, or give an object with __len__ and __getitem__"
            )
        if options.max_skipped_chunks:
            raise ConfigError("an iterable has no chunks to skip, got max_skipped_chunks")
        if options.epochs is not None:
            raise ConfigError(
                "expected no epochs beside an iterable, which is opened again for every pass; leave"
                " it out, or give an object with __len__ and __getitem__"
            )
        if options.num_workers > 1 or options.num_threads > 1:
            raise ConfigError(
                "an iterable is read by one thread or process, got"
                f" num_workers={options.num_workers} and num_threads={options.num_threads}"
            )
        if getattr(dataset, "batched", False):
            raise ConfigError(f"expected a reader of samples, got one of batches; {_UNBATCHED}")
        digest = hashlib.sha256(f"iterable/{content_of(dataset)}".encode()).hexdigest()[:16]
        reader = dataset if callable(dataset) else _IterablePasses(dataset)
        return cls(reader, options, digest, stats)

    @property
    def weights(self) -> Weights:
        """Empty: an iterable is one set, not a mixture."""
        return ()

    def num_batches(self, _state: LoaderState, /) -> int:
        """Refuse: the length of an iterable is known only at its end."""
        raise TypeError("an iterable has no length; count its batches")

    def skipping(self, state: LoaderState, stretches: Stretches, /) -> LoaderState:
        """Refuse stretches: where the epochs of an iterable end is not known beforehand."""
        if stretches or state.skips:
            raise ConfigError(
                "expected no skip beside an iterable, which is read from its start; leave samples"
                " out where it is made, or give an object with __len__ and __getitem__"
            )
        return state

    def restart(self, state: LoaderState) -> None:
        """Do nothing: a pass starts from the first sample anyway."""

    def reweighted(self, _state: LoaderState, _weights: Sequence[Weight], /) -> LoaderState:
        """Refuse: an iterable is no mixture."""
        raise ConfigError("expected a mixture, which has weights to change, got an iterable")

    def num_reread(self) -> int:
        """Return 0: the iterable does its own reading."""
        return 0

    def close(self) -> None:
        """Do nothing: threads and processes end with their pass."""

    def run(self, start: LoaderState) -> Iterator[Batch]:
        """Yield the batches of one rank from a state on.

        Raises:
            ConfigError: The iterable ends before the state's position.
            LoaderError: The iterable gives batches instead of samples.
        """
        with open_reader(self._reader(start.epoch)) as samples:
            yield from self._groups(samples, start)

    def _groups(self, samples: Iterator[Any], start: LoaderState) -> Iterator[Batch]:
        options = self.options
        global_batch = options.batch_size * options.share.world_size
        # A batch is known to be the last only when nothing follows it, so the next samples are
        # drawn before a batch is handed over: one sample, or a whole global batch where a short
        # one is dropped.
        num_ahead = global_batch if options.tail is Tail.DROP else 1
        first = self._skip(samples, start.position, global_batch)
        position, is_last = start.position, False
        ahead: list[Any] = []
        error: Exception | None = None
        while not is_last:
            if error is None:
                error = self._draw(samples, global_batch + num_ahead - len(ahead), ahead)
            group, ahead = ahead[:global_batch], ahead[global_batch:]
            if error is not None and len(group) < global_batch:
                raise error
            if not group or (len(group) < global_batch and options.tail is Tail.DROP):
                return
            # The first samples of the epoch fill the last batch where the tail asks for padding.
            first += group[: global_batch - len(first)]
            is_last = error is None and len(ahead) < num_ahead
            state = replace(start, position=position + len(group))
            if is_last:
                state = replace(start, epoch=start.epoch + 1, position=0)
            yield self._batch(group, position, first, state)
            position += len(group)

    def _skip(self, samples: Iterator[Any], position: int, num_kept: int) -> list[Any]:
        """Skip the samples before a position; return the first ones, which may fill a batch."""
        start_s = time.perf_counter()
        first = list(islice(samples, min(num_kept, position)))
        # An iterable has no positions: its samples are read and dropped.
        num_skipped = len(first) + sum(1 for _ in islice(samples, position - len(first)))
        self._count_wait(time.perf_counter() - start_s)
        if num_skipped < position:
            raise ConfigError(
                f"expected at least {position} samples as in the state, the iterable has"
                f" {num_skipped}"
            )
        return first

    def _draw(self, samples: Iterator[Any], count: int, into: list[Any]) -> Exception | None:
        """Append ``count`` samples, fewer at the end; return the iterable's error, if any."""
        start_s, num_before = time.perf_counter(), len(into)
        error = _take(samples, count, into)
        self._count_wait(time.perf_counter() - start_s)
        if is_batch(next(iter(into[num_before:]), None)):
            raise LoaderError(f"expected samples, got a batch (a list of tuples); {_UNBATCHED}")
        return error

    def _count_wait(self, seconds: float) -> None:
        self.stats.count_wait(seconds, 0)
        if not self.options.num_workers and not self.options.num_threads:
            self.stats.count_load(seconds, 0)

    def _batch(
        self,
        group: list[Any],
        position: int,
        first: list[Any],
        state: LoaderState,
    ) -> Batch:
        start_s = time.perf_counter()
        options, share = self.options, self.options.share
        # Every rank reads the whole group, and keeps its own positions.
        own = [group[p - position] for p in share.positions(position, position + len(group))]
        filling: list[Any] = []
        if options.tail in (Tail.PAD, Tail.REPEAT):
            # Padding continues the positions after the last sample and takes the samples of the
            # start of the epoch in turn: also when the epoch is shorter than the padding.
            end = position + options.batch_size * share.world_size
            total = position + len(group)
            filling = [first[(p % total) % len(first)] for p in share.positions(total, end)]
        rows = own + filling
        columns = stack(rows or group[:1], FreshMemory())
        fields = {name: column.array(0, len(rows)) for name, column in columns.items()}
        batch = Batch(fields, state, len(filling) if options.tail is Tail.PAD else 0)
        num_bytes = sum(column.num_bytes(0, len(rows)) for column in columns.values())
        self.stats.count_assembly(time.perf_counter() - start_s)
        self.stats.count_batches(1, len(rows) - batch.num_padded, num_bytes)
        return batch

    def _reader(self, epoch: int) -> ReaderLike:
        reader = self.reader
        if self.options.num_workers:
            reader = multiprocess_reader([reader])
        elif self.options.num_threads:
            reader = buffered(reader, 2 * self.options.batch_size * self.options.share.world_size)
        set_epoch(reader, epoch)
        return reader


class _IterablePasses:
    """An iterable as a reader.

    Args:
        dataset: An object with ``__iter__``. If it has ``set_epoch``, that is called before a pass.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._was_read = False

    def __call__(self) -> Iterator[Any]:
        """Start a pass.

        Raises:
            ConfigError: The iterable is an iterator, which was read before.
        """
        samples: Iterator[Any] = iter(self._dataset)
        if samples is self._dataset and self._was_read:
            raise ConfigError(
                "expected an iterable for a second pass, got an iterator, which can be read only"
                " once; give the function that makes it, or an object with __iter__"
            )
        self._was_read = True
        return samples

    def set_epoch(self, epoch: int) -> None:
        """Pass the number of the next epoch to the iterable."""
        set_epoch(self._dataset, epoch)


def _take(samples: Iterator[Any], count: int, into: list[Any]) -> Exception | None:
    """Append ``count`` samples, fewer at the end; return the iterable's error, if any."""
    try:
        for sample in islice(samples, count):
            into.append(sample)  # noqa: PERF402 - keeps the samples before an error
    except Exception as error:  # noqa: BLE001 - raised after the batches before it
        return error
    return None
