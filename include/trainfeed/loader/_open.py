"""Turns the dataset that a user passes into the sets that a loader reads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainfeed.errors import ConfigError
from trainfeed.loader._iterable import IterableSet
from trainfeed.loader._options import LoaderOptions
from trainfeed.loader.order import History, Mixture, Weight, shares_of
from trainfeed.loader.sources import MapSource, RecordFiles, Source, TFRecordFiles, published_source
from trainfeed.loader.state import LoaderState, LoaderStats, Weights
from trainfeed.loader.windows import Engine, MixtureEngine, SetEngine
from trainfeed.readers import DatasetReader

__all__ = ["OpenedSets", "open_sets"]


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
            raise ConfigError("expected a mixture to change weights of, got one data set")
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
    if isinstance(dataset, DatasetReader | RecordFiles | TFRecordFiles):
        return True
    # The classes IterableDataset of torch and Paddle inherit both methods, but these only raise.
    if any(kind.__name__ == "IterableDataset" for kind in type(dataset).__mro__):
        return False
    return hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")


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
    if isinstance(dataset, DatasetReader):
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
