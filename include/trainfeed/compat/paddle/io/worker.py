"""What runs in a worker: samples by number, or the worker's share of an iterable data set."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from trainfeed.errors import LoaderError
from trainfeed.readers import open_reader

__all__ = ["Fetch", "WorkerInfo", "get_worker_info"]


@dataclass(frozen=True)
class WorkerInfo:
    """Which worker this process is.

    Attributes:
        id: Its number, from 0.
        num_workers: How many there are.
        dataset: Its copy of the data set.
    """

    id: int
    num_workers: int
    dataset: Any


@dataclass
class _Here:
    """What this process knows of itself as a worker."""

    info: WorkerInfo | None = None
    was_asked: bool = False


_here = _Here()


def get_worker_info() -> WorkerInfo | None:
    """Return which worker this process is; None where it is none.

    An iterable data set, or a ``worker_init_fn``, that asks for it says with that that it gives
    each worker its own samples.
    """
    _here.was_asked = True
    return _here.info


@dataclass(frozen=True)
class Fetch:
    """How samples become batches.

    Attributes:
        dataset: Where they come from.
        collate: Called with the list of samples of a batch; or with a sample, where nothing is
            batched.
        batch_size: Samples of a batch of an iterable data set; None: nothing is batched.
        drop_last: Leave out the last batch of an iterable data set if it has fewer.
        init: Called with the number of a worker when it begins.
    """

    dataset: Any
    collate: Callable[[Any], Any]
    batch_size: int | None
    drop_last: bool
    init: Callable[[int], Any] | None

    def by_number(self, numbers: Any) -> Any:
        """Return the batch of some samples, or the sample of a number."""
        if isinstance(numbers, int):
            return self.collate(self.dataset[numbers])
        return self.collate([self.dataset[number] for number in numbers])

    def opened(self, worker: int, num_workers: int) -> Callable[[Any], Any]:
        """Begin a worker over numbered samples; return ``by_number``."""
        self._begin(worker, num_workers)
        return self.by_number

    def all(self) -> Iterator[Any]:
        """Yield all batches of an iterable data set."""
        with open_reader(lambda: iter(self.dataset)) as samples:
            yield from self._batches(samples)

    def share(self, worker: int, num_workers: int) -> Iterator[Any]:
        """Begin a worker over an iterable data set; yield its batches.

        A data set that does not ask which worker it is in would give every sample to all of them:
        of such a one the worker takes every ``num_workers``-th.
        """
        self._begin(worker, num_workers)
        with open_reader(lambda: iter(self.dataset)) as samples:
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
