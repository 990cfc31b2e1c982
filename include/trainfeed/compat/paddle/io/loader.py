"""``paddle.io.DataLoader``: batches of a data set, over this package's worker processes."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainfeed.compat.paddle.io.collate import default_collate_fn, default_convert_fn
from trainfeed.compat.paddle.io.datasets import is_iterable
from trainfeed.compat.paddle.io.order import NumberOrder
from trainfeed.compat.paddle.io.samplers import BatchSampler
from trainfeed.compat.paddle.io.worker import Fetch
from trainfeed.compat.paddle.loading import GeneratorLoader
from trainfeed.compat.paddle.places import count_cpus
from trainfeed.decorators import iter_mapped
from trainfeed.errors import ConfigError
from trainfeed.processes import iter_ahead, iter_in_turn
from trainfeed.readers import open_reader

__all__ = ["DataLoader"]


class DataLoader:
    """Batches of a data set, as the original gives them, with arrays in place of tensors.

    Every iteration is a pass of its own. Numbered samples come in the order of the batch sampler,
    whatever the number of workers; workers of an iterable data set take turns. Workers are forks,
    which begin with the pass and end with it; what one raises is raised here, behind all batches
    before it.

    Args:
        dataset: Numbered samples (``__getitem__`` and ``__len__``), or an ``IterableDataset``.
        feed_list: Names of the columns, or objects with a ``name``; needed where ``return_list`` is
            False.
        places: The CPU, once per device.
        return_list: False gives a list with one mapping from name to column per place.
        batch_sampler: Gives lists of numbers, in place of the next three.
        batch_size: Samples of a batch; None gives samples as they are.
        shuffle: Draw the numbers in random order, from numpy's global generator.
        drop_last: Leave out a last batch that has fewer samples.
        collate_fn: Makes a batch of a list of samples, or something of a sample where
            ``batch_size`` is None.
        num_workers: Processes; 0 reads in this one.
        use_buffer_reader: Without workers: a thread reads ahead.
        reader_buffer_size: How many batches that thread is ahead.
        prefetch_factor: How many batches each worker is ahead.
        use_shared_memory: Of no effect: large arrays of workers always come in shared memory, which
            has no name and is not bounded by ``/dev/shm``.
        timeout: How many seconds a batch of the workers may take; 0 is as long as they live.
        worker_init_fn: Called with the number of a worker in it, before its first sample.
        persistent_workers: Of no effect: a fork takes milliseconds, and begins with what the data
            set holds here.

    Raises:
        ValueError: An argument is out of range, or two contradict each other.
        ConfigError: A place is not the CPU.
    """

    from_generator = staticmethod(GeneratorLoader.from_generator)

    def __init__(  # noqa: PLR0913, PLR0917 (the original's arguments)
        self,
        dataset: Any,
        feed_list: Sequence[Any] | None = None,
        places: Any = None,
        return_list: bool = True,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[Any], Any] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        reader_buffer_size: int = 2,
        prefetch_factor: int = 2,
        use_shared_memory: bool = True,  # noqa: ARG002
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        persistent_workers: bool = False,  # noqa: ARG002
    ) -> None:
        self._is_iterable = is_iterable(dataset)
        if batch_sampler is not None and (batch_size != 1 or shuffle or drop_last):
            raise ValueError(
                "expected either batch_sampler, or batch_size, shuffle and drop_last, got both"
            )
        if self._is_iterable and (shuffle or batch_sampler is not None):
            raise ValueError("expected neither shuffle nor batch_sampler for an IterableDataset")
        _require_from(0, num_workers=num_workers, timeout=timeout)
        _require_from(1, prefetch_factor=prefetch_factor, reader_buffer_size=reader_buffer_size)
        self._shape = _Shape.of(feed_list, places, return_list=return_list)
        self.dataset = dataset
        self.num_workers = num_workers
        self.batch_size = None if batch_sampler is not None else batch_size
        self.drop_last = drop_last
        self.batch_sampler = batch_sampler
        if batch_sampler is None and batch_size is not None:
            _require_from(1, batch_size=batch_size)
            if not self._is_iterable:
                self.batch_sampler = BatchSampler(dataset, None, shuffle, batch_size, drop_last)
        is_batched = self.batch_sampler is not None or batch_size is not None
        default = default_collate_fn if is_batched else default_convert_fn
        self._fetch = Fetch(dataset, collate_fn or default, batch_size, drop_last, worker_init_fn)
        self._ahead = reader_buffer_size if use_buffer_reader else 0
        self._prefetch = prefetch_factor
        self._timeout_s = timeout or None
        self._order = NumberOrder(self.batch_sampler)

    def __len__(self) -> int:
        """Return how many batches a pass has.

        Raises:
            TypeError: The data set is iterable.
        """
        if self._is_iterable:
            raise TypeError("a loader over an IterableDataset has no length; count its batches")
        batches: Any = self.dataset if self.batch_sampler is None else self.batch_sampler
        return len(batches)

    def __call__(self) -> Iterator[Any]:
        """Start a pass."""
        return iter(self)

    def __iter__(self) -> Iterator[Any]:
        """Start a pass, or go on with the one of a state that was loaded.

        Raises:
            WorkerDiedError: A worker was killed or has exited; raised by the pass, behind all
                batches before that.
            LoaderError: A batch of a worker takes longer than ``timeout``.
            ConfigError: The batch sampler gives other numbers than before the state was taken.
        """
        order = self._order.begin()
        return self._shape.shaped(order.counted(self._batches(order)))

    def state_dict(self) -> dict[str, Any]:
        """Return where the pass that was begun last stands, as JSON values.

        It counts batches, and holds the state of numpy's global generator where the order may be
        drawn from it. After the last batch it is the beginning of the next pass; of an iterable
        data set only the end of the pass tells that.
        """
        return self._order.state_dict(None if self._is_iterable else len(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next pass begin where a state was taken.

        The number of workers may differ where samples have numbers. An iterable data set is read
        again from its beginning.

        Raises:
            ConfigError: It is no state of this class.
        """
        self._order.load_state_dict(state)

    def _batches(self, order: Any) -> Iterator[Any]:
        if self._is_iterable:
            return itertools.islice(self._streamed(order.epoch), order.position, None)
        numbers = order.numbers(self.dataset)
        if self.num_workers:
            return iter_mapped(
                functools.partial(self._fetch.opened, num_workers=self.num_workers),
                lambda: numbers,
                self.num_workers,
                self._prefetch * self.num_workers,
                epoch=order.epoch,
                timeout_s=self._timeout_s,
            )
        return self._read_ahead(lambda: map(self._fetch.by_number, numbers))

    def _streamed(self, epoch: int) -> Iterator[Any]:
        if not self.num_workers:
            return self._read_ahead(self._fetch.all)
        shares = [
            functools.partial(self._fetch.share, number, self.num_workers)
            for number in range(self.num_workers)
        ]
        return iter_in_turn(shares, self._prefetch, epoch=epoch, timeout_s=self._timeout_s)

    def _read_ahead(self, read: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        return iter_ahead(read, self._ahead) if self._ahead else read()


class _Shape:
    """How a batch is handed over: as it is, or as static graphs take it."""

    def __init__(self, names: list[str] | None, num_places: int) -> None:
        self._names = names
        self._num_places = num_places

    @classmethod
    def of(cls, feed_list: Sequence[Any] | None, places: Any, *, return_list: bool) -> _Shape:
        num_places = count_cpus(places)
        if feed_list is None and not return_list:
            raise ValueError("expected a feed_list with return_list=False")
        if feed_list is None and num_places > 1:
            raise ConfigError(
                f"expected one place without a feed_list, got {num_places}; start one process per"
                " device"
            )
        names = None if return_list else [str(getattr(v, "name", v)) for v in feed_list or ()]
        return cls(names, num_places)

    def shaped(self, batches: Iterator[Any]) -> Iterator[Any]:
        if self._names is None and self._num_places == 1:
            return batches
        return self._per_place(batches)

    def _per_place(self, batches: Iterator[Any]) -> Iterator[list[Any]]:
        with open_reader(lambda: batches):
            while group := list(itertools.islice(batches, self._num_places)):
                if len(group) == self._num_places:
                    yield group if self._names is None else [self._named(batch) for batch in group]

    def _named(self, batch: Any) -> dict[str, Any]:
        names = self._names or []
        if isinstance(batch, Mapping):
            return {name: batch[name] for name in names}
        columns = batch if isinstance(batch, list | tuple) else [batch]
        if len(columns) != len(names):
            raise ValueError(
                f"expected {len(names)} columns as in feed_list {names}, got {len(columns)}"
            )
        return dict(zip(names, columns, strict=True))


def _require_from(least: int, **numbers: Any) -> None:
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or number < least:
            raise ValueError(f"expected {name} from {least} on, got {number!r}")
