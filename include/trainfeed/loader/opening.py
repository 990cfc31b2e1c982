"""What a user hands to a loader: its settings, checked, and its dataset, opened; iterables too."""

from __future__ import annotations

import hashlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, TypeGuard, TypeVar

from trainfeed.core.whole_numbers import whole
from trainfeed.decorators import buffered, is_batch, multiprocess_reader, set_epoch
from trainfeed.errors import ConfigError, LoaderError
from trainfeed.loader.chunks import Verify
from trainfeed.loader.engines import Engine, MixtureEngine, SetEngine
from trainfeed.loader.files import DEFAULT_READ_DEADLINE_S
from trainfeed.loader.map_source import MapSource, content_of, stack
from trainfeed.loader.memory import FreshMemory
from trainfeed.loader.mixture import History, Mixture, Weight, shares_of
from trainfeed.loader.order import DEFAULT_WINDOW_BYTES, RankShare, Tail, lanes_for
from trainfeed.loader.record_files import RecordFiles, TFRecordFiles, published_source
from trainfeed.loader.state import (
    LARGEST,
    LARGEST_SEED,
    MOST_LANES,
    Batch,
    LoaderReport,
    LoaderState,
    LoaderStats,
    Stretches,
    Weights,
)
from trainfeed.loader.windows import Source
from trainfeed.readers import ReaderLike, open_reader

if TYPE_CHECKING:
    from trainfeed.readers import DatasetReader

# --- The settings of a loader, checked when it is made

_Enum = TypeVar("_Enum", bound=StrEnum)

# A window usually takes milliseconds; samples that take seconds each need a higher timeout_s.
DEFAULT_TIMEOUT_S: Final = 120.0

_TENSORS: Final = "give the loader to trainfeed.adapters.torch, which yields tensors to pin or move"
_PADDLE: Final = "give the loader to trainfeed.adapters.paddle, which yields tensors"
_WORKERS: Final = "its workers start without a fork and stay until close()"
# Arguments of other libraries' loaders, and their replacements here.
_REMEDIES: Final = {
    "drop_last": 'write tail="drop"; see Tail for what else may become of the last samples',
    "sampler": "it computes the order itself; write shuffle=True and seed, rank and world_size",
    "batch_sampler": "it computes the order itself; write batch_size, shuffle=True and seed, rank"
    " and world_size",
    "collate_fn": "it stacks samples field by field; let __getitem__ return what fits together",
    "pin_memory": _TENSORS,
    "pin_memory_device": _TENSORS,
    "prefetch_factor": "write prefetch, which counts windows of all workers together",
    "timeout": "write timeout_s",
    "generator": "write seed",
    "persistent_workers": _WORKERS,
    "multiprocessing_context": _WORKERS,
    "worker_init_fn": "prepare what samples need in __getitem__, or in __setstate__ of the dataset",
    "places": _PADDLE,
    "feed_list": _PADDLE,
    "return_list": _PADDLE,
    "use_shared_memory": "workers always use it; max_bytes bounds it",
    "use_buffer_reader": "write num_threads or num_workers, which load ahead",
}


@dataclass(frozen=True)
class LoaderOptions:
    """See ``DataLoader``; the names are the same, but for ``skips``, which are those of ``skip``.

    Raises:
        ConfigError: A setting is out of range, or two contradict each other.
    """

    batch_size: int = 1
    shuffle: bool = False
    seed: int = 0
    share: RankShare = field(default_factory=lambda: RankShare(0, 1))
    tail: Tail = Tail.SHORT
    num_workers: int = 0
    num_threads: int = 0
    prefetch: int | None = None
    copy: bool = False
    verify: Verify = Verify.FIRST
    window_bytes: int = DEFAULT_WINDOW_BYTES
    lanes: int | None = None
    max_bytes: int | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    read_deadline_s: float = DEFAULT_READ_DEADLINE_S
    max_skipped_chunks: int = 0
    epochs: int | None = None
    skips: Stretches = ()
    on_report: Callable[[LoaderReport], None] | None = None

    def __post_init__(self) -> None:
        self._check_least("batch_size", 1)
        self._check_least("num_workers", 0)
        self._check_least("num_threads", 0)
        self._check_least("window_bytes", 1, LARGEST)
        self._check_least("seed", -LARGEST_SEED, LARGEST_SEED)
        self._check_flag("shuffle")
        self._check_flag("copy")
        self._check_seconds("timeout_s", above=True)
        self._check_seconds("read_deadline_s")
        if self.max_bytes is not None:
            self._check_least("max_bytes", 1, LARGEST)
        self._check_least("max_skipped_chunks", 0)
        self._check_lanes()
        for name in ("prefetch", "epochs"):
            if getattr(self, name) is not None:
                self._check_least(name, 1)
        if self.on_report is not None and not callable(self.on_report):
            raise ConfigError(f"expected on_report as a function, got {self.on_report!r}")
        if self.num_workers and self.num_threads:
            raise ConfigError(
                "expected num_workers or num_threads, got both; threads are cheaper where decoding"
                " leaves the interpreter lock, processes where samples are made by Python code"
            )

    @property
    def order_lanes(self) -> int:
        """Number of lanes of a new order; 1 in natural order."""
        if not self.shuffle:
            return 1
        return lanes_for(self.share.world_size) if self.lanes is None else self.lanes

    def ahead(self, period: int) -> int:
        """Return how many windows are loaded ahead of need.

        Args:
            period: Number of lanes that the rank reads; half of them may need a window at the same
                time.
        """
        if self.prefetch is not None:
            return self.prefetch
        return max(2 * max(self.num_workers, self.num_threads), -(-period // 2)) + 2

    def _check_least(self, name: str, least: int, most: int | None = None) -> None:
        object.__setattr__(self, name, whole(name, getattr(self, name), least, most))

    def _check_lanes(self) -> None:
        if self.lanes is None:
            return
        self._check_least("lanes", 1, MOST_LANES)
        if not self.shuffle:
            raise ConfigError(
                f"expected lanes with shuffle=True only, got {self.lanes}; the natural order has"
                " none: leave lanes out"
            )

    def _check_flag(self, name: str) -> None:
        value = getattr(self, name)
        if value not in (True, False):
            raise ConfigError(f"expected {name} as True or False, got {value!r}")
        object.__setattr__(self, name, bool(value))

    def _check_seconds(self, name: str, *, above: bool = False) -> None:
        value = getattr(self, name)
        seconds = float(value) if isinstance(value, Real) else math.nan
        # The comparison is negated so that NaN, which compares false with everything, is refused
        # too.
        if not (seconds > 0 if above else seconds >= 0):
            what = "above 0" if above else "from 0 on"
            raise ConfigError(f"expected {name} as seconds {what}, got {value!r}")


def refuse_names(names: Iterable[str]) -> None:
    """Refuse arguments that a loader does not have.

    Raises:
        ConfigError: Another library's loader has this argument; the message names the replacement.
        TypeError: The argument is unknown.
    """
    for name in names:
        if name in _REMEDIES:
            raise ConfigError(f"trainfeed's DataLoader has no {name}: {_REMEDIES[name]}")
        raise TypeError(f"DataLoader() got an unexpected keyword argument {name!r}")


def enum_of(kind: type[_Enum], name: str, value: str) -> _Enum:
    """Return the member of an enumeration.

    Raises:
        ConfigError: The enumeration has no such member.
    """
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(kind)
        raise ConfigError(f"expected {name} as one of {known}, got {value!r}") from None


# --- Iterables and readers, which can only be read from the start

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


# --- Turns the dataset that a user passes into the sets that a loader reads


@dataclass(frozen=True)
class OpenedSets:
    """Sets that are read by position: one set, or the sets of a mixture.

    Attributes:
        sources: The sets.
        mixture: The shares of the sets; None for a single set.
    """

    sources: Sequence[Source]
    mixture: Mixture | None

    @property
    def digest(self) -> str:
        """Digest of content and layout of the sets; 16 hex digits."""
        if self.mixture is None:
            return self.sources[0].digest
        digests = [source.digest for source in self.sources]
        return self.mixture.digest(digests, self.total)

    @property
    def total(self) -> int:
        """Samples of an epoch."""
        samples = sum(int(source.num_samples.sum()) for source in self.sources)
        return samples if self.mixture is None else self.mixture.epoch_samples or samples

    @property
    def weights(self) -> Weights:
        """The weights to start with; empty for one set."""
        return () if self.mixture is None else ((0, self.mixture.shares),)

    def engine(self, state: LoaderState, stats: LoaderStats) -> Engine:
        """Return the engine that reads in the order of a state."""
        if self.mixture is None:
            return SetEngine(self.sources[0], state, stats)
        return MixtureEngine(self.mixture, self.sources, state, stats)

    def check_weights(self, state: LoaderState) -> None:
        """Refuse a state whose weights do not suit the sets.

        Raises:
            ConfigError: The state has weights for one set, or not one per set of the mixture.
        """
        if self.mixture is None and state.weights:
            raise ConfigError("expected a state of one data set, got one of a mixture")
        if self.mixture is not None:
            History(state.weights, len(self.sources))

    def reweighted(self, state: LoaderState, weights: Sequence[Weight]) -> LoaderState:
        """Return a state from which other weights apply.

        Raises:
            ConfigError: There is no mixture, or the weights do not suit it.
        """
        if self.mixture is None:
            raise ConfigError("expected a mixture, which has weights to change, got one data set")
        # Positions of weights count the samples of all epochs.
        position = state.epoch * self.total + state.position
        # Entries from this position on are replaced by the new weights.
        before = tuple(entry for entry in state.weights if entry[0] < position)
        changed = replace(state, weights=(*before, (position, shares_of(weights))))
        self.check_weights(changed)
        return changed

    def num_reread(self) -> int:
        """Return how often reads were tried again."""
        return sum(source.num_reread() for source in self.sources)

    def close(self) -> None:
        """Close files."""
        for source in self.sources:
            source.close()


def open_sets(dataset: Any, options: LoaderOptions, stats: LoaderStats) -> OpenedSets | IterableSet:
    """Open a dataset.

    Args:
        dataset: The argument of ``DataLoader``.
        options: The settings of the loader.
        stats: The counters of the loader.

    Raises:
        ConfigError: Samples cannot be taken from an object of this type.
    """
    _refuse_paths(dataset)
    if isinstance(dataset, Mixture):
        children = [_source(child, options) for child in dataset.datasets]
        return OpenedSets(children, dataset)
    if _by_number(dataset):
        return OpenedSets([_source(dataset, options)], None)
    if hasattr(dataset, "__iter__") or callable(dataset):
        return IterableSet.of(dataset, options, stats)
    raise ConfigError(
        "expected a data set, record files, a mixture, or an object with __len__ and __getitem__"
        f" or __iter__, got {type(dataset).__name__}"
    )


def _by_number(dataset: Any) -> bool:
    if is_published(dataset) or isinstance(dataset, RecordFiles | TFRecordFiles):
        return True
    # The classes IterableDataset of torch and Paddle inherit both methods, but these only raise.
    if any(kind.__name__ == "IterableDataset" for kind in type(dataset).__mro__):
        return False
    return hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")


def is_published(dataset: object) -> TypeGuard[DatasetReader]:
    """Return whether an object is a published data set.

    Without one, its module, which brings manifests along, was never imported.
    """
    published = sys.modules.get("trainfeed.readers.published")
    return published is not None and isinstance(dataset, published.DatasetReader)


def _refuse_paths(dataset: Any) -> None:
    """Refuse texts, paths and mappings: they have a length and items, but no samples."""
    if isinstance(dataset, str | bytes | bytearray | os.PathLike | Mapping):
        raise ConfigError(
            f"expected a data set, got {type(dataset).__name__}; for files write"
            " RecordFiles(paths) or TFRecordFiles(paths), for a published version"
            " open_dataset(name, …), for columns an object with __len__ and __getitem__"
        )


def _source(dataset: Any, options: LoaderOptions) -> Source:
    _refuse_paths(dataset)
    verify, deadline_s = options.verify, options.read_deadline_s
    max_skipped, in_order = options.max_skipped_chunks, not options.shuffle
    if is_published(dataset):
        return published_source(
            dataset,
            verify=verify,
            deadline_s=deadline_s,
            max_skipped=max_skipped,
            in_order=in_order,
        )
    if isinstance(dataset, RecordFiles):
        return dataset.source(
            verify=verify, deadline_s=deadline_s, max_skipped=max_skipped, in_order=in_order
        )
    if max_skipped:
        raise ConfigError(
            "expected published versions or RecordIO files with max_skipped_chunks, got"
            f" {type(dataset).__name__}"
        )
    if isinstance(dataset, TFRecordFiles):
        return dataset.source(verify=verify, deadline_s=deadline_s, in_order=in_order)
    if _by_number(dataset):
        return MapSource(dataset)
    raise ConfigError(
        f"expected data sets whose samples have numbers in a mixture, got {type(dataset).__name__}"
    )
