"""Code of the workers: samples by number or a share of an iterable set, made to batches."""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainfeed.decorators import fields_of, stacked
from trainfeed.errors import LoaderError
from trainfeed.readers import open_reader

# --- Default functions that make a batch of a list of samples


def default_collate_fn(batch: Sequence[Any]) -> Any:
    """Return a batch of samples as the original does, with arrays instead of tensors.

    Args:
        batch: One or more samples: arrays, numbers, text, bytes, and mappings and sequences of
            these.

    Returns:
        For arrays and numbers: an array of shape ``(len(batch), *S)``. For text and bytes: a list.
        For mappings: a mapping of these by name. For sequences: a list of these, one per field.

    Raises:
        SampleShapeError: The samples differ in shape or in their fields.
        TypeError: A sample has another type.
    """
    return _collated(batch, "a batch")


def _collated(batch: Sequence[Any], where: str) -> Any:
    first = batch[0]
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, numbers.Number):
        return np.array(batch)
    if hasattr(first, "__array__"):
        return stacked([np.asarray(sample) for sample in batch], where, "; give a collate_fn")
    if not isinstance(first, Mapping | Sequence):
        raise TypeError(
            f"expected arrays, numbers, texts, mappings and sequences as samples, got"
            f" {type(first).__name__}; give a collate_fn"
        )
    columns = {
        key: _collated(values, f"{where}, field {key!r}")
        for key, values in fields_of(batch, where).items()
    }
    return columns if isinstance(first, Mapping) else list(columns.values())


def default_convert_fn(sample: Any) -> Any:
    """Return one unbatched sample as the original does: sequences become lists."""
    if isinstance(sample, str | bytes) or hasattr(sample, "__array__"):
        return sample
    if isinstance(sample, Mapping):
        return {name: default_convert_fn(value) for name, value in sample.items()}
    if isinstance(sample, Sequence):
        return [default_convert_fn(value) for value in sample]
    return sample


# --- Code of the workers: samples by number, or a worker's share of an iterable data set


@dataclass(frozen=True)
class WorkerInfo:
    """Description of the worker that this process is.

    Attributes:
        id: Number of the worker, from 0.
        num_workers: Number of workers.
        dataset: The worker's copy of the data set.
    """

    id: int
    num_workers: int
    dataset: Any


@dataclass
class _Here:
    """This process as a worker: its description, and whether the data set asked for it."""

    info: WorkerInfo | None = None
    was_asked: bool = False


_here = _Here()


def get_worker_info() -> WorkerInfo | None:
    """Return the worker that this process is; None outside of workers.

    An iterable data set that calls this function, also through ``worker_init_fn``, declares that
    it yields different samples in each worker. The loader then does not divide the samples.
    """
    _here.was_asked = True
    return _here.info


@dataclass(frozen=True)
class Fetch:
    """Makes batches of samples, in this process or in a worker.

    Attributes:
        dataset: The data set.
        collate: Function from a list of samples to a batch; called with each sample if
            ``batch_size`` is None.
        batch_size: Samples per batch of an iterable data set; None for unbatched samples.
        drop_last: Whether to omit a last batch of an iterable data set with fewer samples.
        init: Called in each worker with its number when it starts.
    """

    dataset: Any
    collate: Callable[[Any], Any]
    batch_size: int | None
    drop_last: bool
    init: Callable[[int], Any] | None

    def by_number(self, numbers: Any) -> Any:
        """Return the batch of a list of numbers, or the sample of one number."""
        if isinstance(numbers, int):
            return self.collate(self.dataset[numbers])
        return self.collate([self.dataset[number] for number in numbers])

    def opened(self, worker: int, num_workers: int) -> Callable[[Any], Any]:
        """Start a worker over numbered samples; return ``by_number``."""
        self._begin(worker, num_workers)
        return self.by_number

    def all(self) -> Iterator[Any]:
        """Yield all batches of an iterable data set."""
        with open_reader(lambda: iter(self.dataset)) as samples:
            yield from self._batches(samples)

    def share(self, worker: int, num_workers: int) -> Iterator[Any]:
        """Start a worker over an iterable data set; yield its batches.

        A data set that does not call ``get_worker_info`` yields every sample in every worker. In
        this case each worker keeps every ``num_workers``-th sample.
        """
        self._begin(worker, num_workers)
        with open_reader(lambda: iter(self.dataset)) as samples:
            # A generator runs its first lines, and calls get_worker_info there, only when its
            # first sample is drawn.
            first = list(itertools.islice(samples, 1))
            rest: Iterator[Any] = itertools.chain(first, samples)
            if not _here.was_asked and num_workers > 1:
                rest = _every(rest, worker, num_workers)
            yield from self._batches(rest)

    def _begin(self, worker: int, num_workers: int) -> None:
        _here.info, _here.was_asked = WorkerInfo(worker, num_workers, self.dataset), False
        if self.init is not None:
            self.init(worker)

    def _batches(self, samples: Iterator[Any]) -> Iterator[Any]:
        if self.batch_size is None:
            yield from map(self.collate, samples)
            return
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate(batch)


def _every(samples: Iterator[Any], worker: int, num_workers: int) -> Iterator[Any]:
    for number, sample in enumerate(samples):
        if _here.was_asked:
            raise LoaderError(
                f"expected the data set to call get_worker_info() before its first sample, or not"
                f" at all, it was called behind sample {number}; samples were divided among the"
                " workers until then"
            )
        if number % num_workers == worker:
            yield sample
