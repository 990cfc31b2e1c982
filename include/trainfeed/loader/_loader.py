"""The loader: batches in a computed order, from any point on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from trainfeed.errors import ConfigError
from trainfeed.loader._open import OpenedSets, open_sets
from trainfeed.loader._options import DEFAULT_TIMEOUT_S, LoaderOptions, enum_of, refuse_names
from trainfeed.loader._runner import Runner, SetsRunner
from trainfeed.loader.files import DEFAULT_READ_DEADLINE_S
from trainfeed.loader.order import DEFAULT_WINDOW_BYTES, RankShare, Tail, Weight
from trainfeed.loader.sources import Verify
from trainfeed.loader.state import (
    LARGEST,
    MOST_LANES,
    Batch,
    LoaderReport,
    LoaderState,
    LoaderStats,
    Skip,
    Standing,
    stretches_of,
)
from trainfeed.whole_numbers import whole

__all__ = ["DataLoader"]

_REPORT_EVERY_S: Final = 10.0


class DataLoader:
    """Batches of a data set, as field → array of shape ``(batch_size, *S)``.

    The order is a pure function of content, seed, lanes, epoch and position. It does not depend on
    workers, threads, prefetching or the batch size, and on ranks only as far as ``lanes`` is left
    to them, so a state, which is a few numbers, restores under any others. Iterating gives one
    epoch; the next iterator gives the next one, also after one that was left early.

    Use it as a context manager, or close it, to end worker processes at once; they also end with
    the loader, and with the process.

    Args:
        dataset: What ``open_dataset`` gives, ``RecordFiles``, ``TFRecordFiles``, a mixture, any
            object with ``__len__`` and ``__getitem__``, any iterable, or a reader. Objects of your
            own are told apart by ``content_digest``, a text, if they have one, else by their class
            and length alone, so that a state of other content would not be refused.
        batch_size: Rows per batch and rank.
        shuffle: Whether the order is a permutation; a new one in every epoch.
        seed: What the permutation depends on besides content and epoch.
        rank: Which share of every global batch to yield.
        world_size: How many ranks there are. All get equally many batches.
        tail: What becomes of samples that fill no global batch: ``short``, ``drop``, ``pad``,
            ``repeat``; see ``Tail``.
        num_workers: Processes that load ahead; for samples that are made by Python code.
        num_threads: Threads that load ahead; for files, whose decoding leaves the interpreter
            lock.
        prefetch: How many windows are loaded ahead; enough for workers and lanes when None.
        copy: Give every batch memory of its own. Else batches are views of memory that is used
            again when nobody looks at it any more, and keeping a row keeps more than the row.
        verify: When checksums are compared: ``always``, ``first``, ``never``.
        window_bytes: Bytes of samples that are shuffled together; part of the order.
        lanes: In how many lanes a shuffled order is cut; part of the order. A rank reads lanes of
            its own if there is a multiple of ``world_size`` of them, else every rank reads all.
            None takes the smallest multiple of ``world_size`` from 16 on, so that runs that start
            on 3 ranks and on 4 differ; a common multiple, as 12, gives them one order. A state
            brings its own.
        max_bytes: Limit for the memory that is shared with worker processes; what their windows
            need when None, 256 MiB if only the samples know.
        timeout_s: How long a worker or thread may take for a window.
        read_deadline_s: How long a read is tried again while a file system fails in passing.
        max_skipped_chunks: How many damaged chunks of record files a process may leave out, each
            with a warning in the log. Their samples are missing from the batches; all others stay
            where they are, and so do states. With 0 the first one is an error.
        skip: ``{"from": a, "to": b}``, or a list of these: samples a to b - 1 are left out, counted
            over all ranks from the start of epoch 0 on (``epoch * num_samples + position`` of a
            state). ``tail`` decides about the samples in front of a stretch as it does at the end
            of an epoch. States have it, and bring theirs.
        on_report: Called with the figures after every pass, and every 10 s within one.

    Raises:
        ConfigError: A setting is out of range, or the dataset cannot be read that way.
        FormatError: An index of the dataset is damaged.
    """

    def __init__(  # noqa: PLR0913 - one keyword per setting, as users expect of a loader
        self,
        dataset: Any,
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        tail: str = "short",
        num_workers: int = 0,
        num_threads: int = 0,
        prefetch: int | None = None,
        copy: bool = False,
        verify: str = "first",
        window_bytes: int = DEFAULT_WINDOW_BYTES,
        lanes: int | None = None,
        max_bytes: int | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        read_deadline_s: float = DEFAULT_READ_DEADLINE_S,
        max_skipped_chunks: int = 0,
        skip: Skip | None = None,
        on_report: Callable[[LoaderReport], None] | None = None,
        **foreign: object,
    ) -> None:
        refuse_names(foreign)
        world_size = whole("world_size", world_size, 1, MOST_LANES)
        self._options = options = LoaderOptions(
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            share=RankShare(whole("rank", rank, 0), world_size),
            tail=enum_of(Tail, "tail", tail),
            num_workers=num_workers,
            num_threads=num_threads,
            prefetch=prefetch,
            copy=copy,
            verify=enum_of(Verify, "verify", verify),
            window_bytes=window_bytes,
            lanes=lanes,
            max_bytes=max_bytes,
            timeout_s=timeout_s,
            read_deadline_s=read_deadline_s,
            max_skipped_chunks=max_skipped_chunks,
            skips=stretches_of(skip),
            on_report=on_report,
        )
        self.dataset = dataset
        self._stats = LoaderStats()
        sets = open_sets(dataset, options, self._stats)
        first = LoaderState(
            digest=sets.digest,
            seed=options.seed,
            epoch=0,
            position=0,
            lanes=options.order_lanes,
            window=options.window_bytes if options.shuffle else 0,
            weights=sets.weights,
        )
        self._runner: Runner = (
            SetsRunner(sets, options, self._stats, first) if isinstance(sets, OpenedSets) else sets
        )
        self._next = self._runner.skipping(first, options.skips)
        self._standing: Standing = self._next

    @property
    def tail(self) -> Tail:
        """What becomes of samples that fill no global batch."""
        return self._options.tail

    @property
    def share(self) -> RankShare:
        """Which rank of how many the batches are for."""
        return self._options.share

    @property
    def due(self) -> LoaderState:
        """Where the next iterator starts; ``state_dict`` is where the one that goes on stands."""
        return self._next

    def __iter__(self) -> Iterator[Batch]:
        """Return an iterator over the rest of the epoch that is due with its first batch.

        One that is never asked for a batch takes nothing: tools make more of them than they use.
        """
        return self._run()

    def __len__(self) -> int:
        """Return how many batches the whole epoch has in which the loader stands."""
        return self._runner.num_batches(self._standing.state())

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader stands after the batch that was handed over last.

        JSON values, below 200 bytes for one data set; taking it costs nothing. Prefetching never
        runs ahead of it.
        """
        return self._standing.state().to_json()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iterator start where a state was taken.

        Number of ranks, workers and threads, batch size and prefetching may differ from those of
        the loader that gave the state. Lanes and windows are taken from it.

        Raises:
            ConfigError: It is no state, or that of another data set, seed or kind of order, or of
                other lanes than the loader was told to have; or samples that the loader was told
                to skip lie before it.
        """
        loaded = LoaderState.from_json(state)
        self._check(loaded)
        loaded = self._runner.skipping(loaded, self._options.skips)
        self._runner.restart(loaded)
        self._standing = self._next = loaded

    def set_weights(self, weights: Sequence[Weight]) -> None:
        """Change the weights of a mixture from the batch on that is due.

        The next iterator goes on where the loader stands. The change is part of its states.

        Args:
            weights: One per data set, in their order.

        Raises:
            ConfigError: The dataset is no mixture, or the weights do not suit it.
        """
        self._next = self._runner.reweighted(self._standing.state(), weights)
        self._standing = self._next

    def set_epoch(self, epoch: int) -> None:
        """Let the next iterator start at the beginning of an epoch.

        Raises:
            ConfigError: It is no number from 0 on.
        """
        number = whole("epoch", epoch, 0, LARGEST)
        self._next = self._standing = replace(self._next, epoch=number, position=0)

    def report(self) -> LoaderReport:
        """Return where time went so far, over all iterators."""
        return replace(self._stats.report(), rereads=self._runner.num_reread())

    def close(self) -> None:
        """End worker processes and close files; safe to call twice."""
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a DataLoader stays in its process; send what it is made of, and state_dict(), and make"
            " another one there"
        )

    def _check(self, state: LoaderState) -> None:
        mine = self._next
        if state.digest != mine.digest:
            raise ConfigError(
                f"expected a state of this data set, {mine.digest}, got one of {state.digest};"
                " open the versions that it was taken from"
            )
        if state.seed != mine.seed:
            raise ConfigError(f"expected a state of seed {mine.seed}, got one of seed {state.seed}")
        if bool(state.window) != self._options.shuffle:
            kinds = {True: "a shuffled", False: "the natural"}
            raise ConfigError(
                f"expected a state of {kinds[self._options.shuffle]} order, got one of"
                f" {kinds[bool(state.window)]} order"
            )
        if self._options.lanes not in (None, state.lanes):
            raise ConfigError(
                f"expected a state of {self._options.lanes} lanes, got one of {state.lanes}; leave"
                " lanes out to go on in the order of the state"
            )

    def _run(self) -> Iterator[Batch]:
        start = self._standing = self._next
        self._next = replace(start, epoch=start.epoch + 1, position=0)
        self._stats.start()
        asked = self._options.on_report is not None
        due_s = time.monotonic() + _REPORT_EVERY_S
        for batch in self._runner.run(start):
            self._standing = batch.standing
            yield batch
            if asked and time.monotonic() > due_s:
                self._tell()
                due_s = time.monotonic() + _REPORT_EVERY_S
        self._standing = replace(start, epoch=start.epoch + 1, position=0)
        self._tell()

    def _tell(self) -> None:
        if self._options.on_report is not None:
            self._options.on_report(self.report())
