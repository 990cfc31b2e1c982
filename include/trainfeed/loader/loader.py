"""The loader: batches in a computed order, from any point on; and the measurement of its speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from trainfeed.core.whole_numbers import whole
from trainfeed.errors import ConfigError
from trainfeed.loader.chunks import Verify
from trainfeed.loader.files import DEFAULT_READ_DEADLINE_S
from trainfeed.loader.mixture import Weight
from trainfeed.loader.opening import (
    DEFAULT_TIMEOUT_S,
    LoaderOptions,
    OpenedSets,
    enum_of,
    open_sets,
    refuse_names,
)
from trainfeed.loader.order import DEFAULT_WINDOW_BYTES, RankShare, Tail
from trainfeed.loader.runner import Runner, SetsRunner
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

# --- The loader: batches in a computed order, from any point on

_REPORT_EVERY_S: Final = 10.0


class DataLoader:
    """Batches of a data set, as field → array of shape ``(batch_size, *S)``.

    The order is a pure function of content, seed, lanes, epoch and position. The order does not
    depend on workers, threads, prefetching or the batch size. It depends on the number of ranks
    only if ``lanes`` is None. A state is a few numbers, and can be restored with other workers,
    ranks and batch sizes. An iterator gives one epoch; the next iterator gives the next epoch,
    even if the previous iterator was not read to its end.

    Use the loader as a context manager, or call ``close``, to end worker processes at once. They
    also end with the loader object, and with the process.

    Args:
        dataset: The result of ``open_dataset``, ``RecordFiles``, ``TFRecordFiles``, a mixture, any
            object with ``__len__`` and ``__getitem__``, any iterable, or a reader. Your own
            objects are identified by their attribute ``content_digest``, a text. Without this
            attribute only class and length count, and a state that was taken with other content is
            not refused.
        batch_size: Rows per batch and rank.
        shuffle: Whether samples come in a permuted order; every epoch has a new permutation. In the
            order of the set, every rank reads and decodes all chunks and keeps its rows, so eight
            ranks read eight times as much as one; with more than one rank this is logged.
        seed: Number that the permutation depends on, besides content and epoch.
        rank: Number of this process; it chooses the share of every global batch.
        world_size: Number of ranks. All ranks get the same number of batches. What each of them
            reads: see ``shuffle`` and ``lanes``.
        tail: Treatment of the last samples if they do not fill a global batch: ``short``,
            ``drop``, ``pad``, ``repeat``; see ``Tail``.
        num_workers: Number of processes that load ahead; for samples that Python code makes.
        num_threads: Number of threads that load ahead; for files, whose decoding releases the
            interpreter lock.
        prefetch: Number of windows to load ahead; None takes enough for workers and lanes.
        copy: Give every batch memory of its own. Otherwise batches are views of memory that is
            used again after the last view is gone, and a kept row keeps more memory than the row.
        verify: When checksums are compared: ``always``, ``first``, ``never``.
        window_bytes: Bytes of samples that are shuffled together; part of the order.
        lanes: In how many lanes a shuffled order is cut; part of the order. If ``lanes`` is a
            multiple of ``world_size``, every rank reads lanes of its own; otherwise every rank
            reads all lanes. None takes the smallest multiple of ``world_size`` that is at least
            16, so trainings that start on 3 and on 4 ranks have different orders; a common
            multiple, such as 12, gives both the same order. A restored state sets its own number
            of lanes.
        max_bytes: Limit for the memory that is shared with worker processes. None takes the need
            of the windows, or 256 MiB if the size of samples is not known before they are loaded.
        timeout_s: Most seconds that a worker or thread may take for a window.
        read_deadline_s: Seconds for which a read is repeated after temporary errors of a file
            system.
        max_skipped_chunks: Number of damaged chunks of record files that each process that reads
            may leave out, each with a warning in the log: with ``num_workers=8`` a loader may leave
            out eight times as many, and each rank has a loader of its own. Their samples are
            missing from the batches; the positions of all other samples, and states, do not change.
            With 0 the first damaged chunk is an error.
        epochs: Number of epochs that will be read, counted from epoch 0. While the last batches of
            an epoch are consumed, threads or workers then load the first windows of the next one,
            within ``prefetch``; after the last epoch they load nothing. None: a pass loads its own
            windows only, so every epoch begins with a wait. More epochs than that can be read.
        skip: ``{"from": a, "to": b}``, or a list of such stretches: samples a to b - 1 are left
            out, counted over all ranks from the start of epoch 0 on (``epoch * num_samples +
            position`` of a state). ``tail`` decides about the samples before a stretch as at the
            end of an epoch. A state contains the stretches and sets its own.
        on_report: Function that gets a ``LoaderReport`` after every pass, and every 10 s during
            one.

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
        epochs: int | None = None,
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
            epochs=epochs,
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
        """Treatment of the last samples if they do not fill a global batch."""
        return self._options.tail

    @property
    def share(self) -> RankShare:
        """Rank and world size that the batches are made for."""
        return self._options.share

    @property
    def due(self) -> LoaderState:
        """State at which the next iterator starts; ``state_dict`` gives the running iterator's."""
        return self._next

    def __iter__(self) -> Iterator[Batch]:
        """Return an iterator over the rest of the epoch.

        The epoch is chosen when the first batch is requested. An iterator that gives no batch
        changes nothing: some tools make more iterators than they use.
        """
        return self._run()

    def __len__(self) -> int:
        """Return how many batches the whole epoch has in which the loader stands."""
        return self._runner.num_batches(self._standing.state())

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the last batch that was handed over.

        The state consists of JSON values, below 200 bytes for one data set, and is cheap to take.
        Batches that were only loaded ahead do not count.
        """
        return self._standing.state().to_json()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iterator start at a state.

        The numbers of ranks, workers and threads, the batch size and prefetching may differ from
        the loader that gave the state. Lanes and window size are those of the state.

        Raises:
            ConfigError: The value is not a state, or belongs to another data set, seed or kind of
                order, or has another number of lanes than this loader was given;
                or samples that this loader was told to skip lie before the state.
        """
        loaded = LoaderState.from_json(state)
        self._check(loaded)
        loaded = self._runner.skipping(loaded, self._options.skips)
        self._runner.restart(loaded)
        self._standing = self._next = loaded

    def set_weights(self, weights: Sequence[Weight]) -> None:
        """Change the weights of a mixture from the next batch on.

        The next iterator continues at the loader's state. Later states contain the change.

        Args:
            weights: One weight per data set, in the order of the mixture.

        Raises:
            ConfigError: The dataset is no mixture, or the weights do not suit it.
        """
        self._next = self._runner.reweighted(self._standing.state(), weights)
        self._standing = self._next

    def set_epoch(self, epoch: int) -> None:
        """Let the next iterator start at the beginning of an epoch.

        Raises:
            ConfigError: The epoch is not a whole number from 0 on.
        """
        number = whole("epoch", epoch, 0, LARGEST)
        self._next = self._standing = replace(self._next, epoch=number, position=0)

    def report(self) -> LoaderReport:
        """Return the time that was spent so far, over all iterators."""
        report = self._stats.report()
        # The stats have those of worker processes.
        return replace(report, rereads=report.rereads + self._runner.num_reread())

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
            "a DataLoader cannot be sent to another process; send its data set, its options and"
            " its state_dict(), and make another loader there"
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
        # Set before the first batch, so that an iterator that starts now gets the next epoch.
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


# --- How fast a loader is, and where its time goes


@dataclass(frozen=True)
class ReadMeasure:
    """Time and rates of reading some epochs; seconds of the consumer, except for ``load_s``.

    Attributes:
        epochs: Number of epochs that were read.
        samples: Number of samples in all these epochs.
        seconds: From the first request to the end.
        first_batch_s: From the first request to the first batch.
        samples_per_s: Rate over all epochs.
        bytes_per_s: Bytes of the arrays in the batches per second, over all epochs.
        best_samples_per_s: Rate of the fastest epoch.
        load_s: Reading, verifying and decoding windows; of all threads and processes together.
        wait_s: Waiting for windows; without threads and workers, loading them.
        assemble_s: Putting batches together from windows.
        rest_s: Cutting batches and handing them over.
        stall_fraction: Share of the time that was spent waiting.
        rereads: Number of repetitions of reads, in all processes.
    """

    epochs: int
    samples: int
    seconds: float
    first_batch_s: float
    samples_per_s: float
    bytes_per_s: float
    best_samples_per_s: float
    load_s: float
    wait_s: float
    assemble_s: float
    rest_s: float
    stall_fraction: float
    rereads: int


def measure_read(loader: DataLoader, *, epochs: int = 3) -> ReadMeasure:
    """Read whole epochs as fast as they come.

    Args:
        loader: The loader to read; use a new one, because its counters are reported as they are.
        epochs: Number of epochs.

    Raises:
        ConfigError: ``epochs`` is below 1.
    """
    if epochs < 1:
        raise ConfigError(f"expected epochs from 1 on, got {epochs}")
    start_s = time.perf_counter()
    first_s: float | None = None
    best = 0.0
    for _ in range(epochs):
        epoch_s, rows = time.perf_counter(), 0
        for batch in loader:
            first_s = first_s or time.perf_counter() - start_s
            rows += batch.num_rows
        best = max(best, rows / (time.perf_counter() - epoch_s))
    seconds = time.perf_counter() - start_s
    report = loader.report()
    return ReadMeasure(
        epochs=epochs,
        samples=report.samples,
        seconds=seconds,
        first_batch_s=first_s or 0.0,
        samples_per_s=report.samples / seconds,
        bytes_per_s=report.bytes / seconds,
        best_samples_per_s=best,
        load_s=report.load_s,
        wait_s=report.wait_s,
        assemble_s=report.assemble_s,
        rest_s=max(0.0, seconds - report.wait_s - report.assemble_s),
        stall_fraction=min(1.0, report.wait_s / seconds),
        rereads=report.rereads,
    )


# --- The sources of a loader: shards, record files, TFRecord files, Python objects

# Names are imported on demand: worker processes import this package and need few of them.


# --- Windows of samples: loaded ahead, in order, and put together to batches

# Names are imported on demand: worker processes import this package and need few of them.


# --- Worker processes of a loader, and the shared memory that windows come through

# Names are imported on demand: worker processes import this package and need few of them.
