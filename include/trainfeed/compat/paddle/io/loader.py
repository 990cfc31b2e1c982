"""``paddle.io.DataLoader``: batches of a data set in an order from which a pass continues."""

from __future__ import annotations

import base64
import binascii
import functools
import itertools
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from trainfeed.compat.paddle.io.datasets import BatchSampler, SequenceSampler, is_iterable
from trainfeed.compat.paddle.io.worker import Fetch, default_collate_fn, default_convert_fn
from trainfeed.compat.paddle.loading import GeneratorLoader, per_place
from trainfeed.compat.paddle.places import count_cpus
from trainfeed.decorators import iter_mapped
from trainfeed.errors import ConfigError
from trainfeed.readers import open_reader
from trainfeed.readers.ahead import iter_ahead, iter_in_turn

# --- The order of a pass, and states from which a pass continues

_KEY_WORDS: Final = 624
_FIELDS: Final = {"epoch", "position", "numbers", "generator"}


class NumberPass:
    """The order and position of one pass.

    Args:
        batch_sampler: Iterable of lists of numbers; None for the numbers of all samples, one by
            one.
        epoch: Number of the pass.
        position: Number of batches that were handed over.
        numbers: Checksum of the numbers of these batches.
        generator: State of numpy's global generator before the first number was drawn.

    Attributes:
        epoch: As above.
        position: As above.
        generator: As above.
        is_restored: Whether the values come from a loaded state.
    """

    def __init__(
        self,
        batch_sampler: Any,
        epoch: int,
        position: int = 0,
        numbers: int = 0,
        generator: Any = None,
    ) -> None:
        self.epoch = epoch
        self.position = position
        self.generator = generator
        self._batch_sampler = batch_sampler
        self.is_restored = False
        self._checksums = {position: numbers}

    @property
    def checksum(self) -> int:
        """Checksum of the numbers of all batches that were handed over."""
        return self._checksums[self.position]

    def numbers(self, dataset: Any) -> Iterator[Any]:
        """Return the numbers to fetch, from the position on; the first is drawn in this call.

        Raises:
            ConfigError: The batch sampler yields other numbers than before the state was taken.
        """
        numbers = iter(range(len(dataset)) if self._batch_sampler is None else self._batch_sampler)
        first = self._drawn_as_before(numbers)
        all_numbers = itertools.chain(first, numbers)
        # The numbers before the position are drawn again and compared by checksum: another sampler
        # or data set would continue in another order without any error.
        checksum, start = 0, self.position
        for batch in itertools.islice(all_numbers, start):
            checksum = _checksum(batch, checksum)
        if checksum != self._checksums[start]:
            raise ConfigError(
                f"expected the batch sampler to give the numbers of the {start} batches before the"
                " state again, it gives others; use the sampler and the data set of the state, and"
                " draw random numbers from numpy's global generator when a pass begins"
            )
        return self._noted(all_numbers, start, checksum)

    def counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield batches, and advance the position with each."""
        with open_reader(lambda: batches):
            for batch in batches:
                # The position moves before the batch is yielded: a state taken while the consumer
                # has the batch counts it.
                self._checksums.pop(self.position, None)
                self.position += 1
                self._checksums.setdefault(self.position, 0)
                yield batch
        self.epoch, self.position, self.generator = self.epoch + 1, 0, None
        self._checksums = {0: 0}

    def _noted(self, numbers: Iterator[Any], position: int, checksum: int) -> Iterator[Any]:
        # Numbers are drawn ahead of the consumer, as far as batches are fetched ahead. Checksums
        # wait here until ``counted`` reaches their position.
        for count, batch in enumerate(numbers, position + 1):
            checksum = _checksum(batch, checksum)
            self._checksums[count] = checksum
            yield batch

    def _drawn_as_before(self, numbers: Iterator[Any]) -> list[Any]:
        """Draw the first number from the generator's state of the pass; samplers draw all then."""
        sampler = getattr(self._batch_sampler, "sampler", None)
        if self._batch_sampler is None or isinstance(sampler, SequenceSampler):
            return list(itertools.islice(numbers, 1))
        now = np.random.get_state()  # noqa: NPY002 (samplers draw from it)
        if not self.is_restored or self.generator is None:
            self.generator = now
            return list(itertools.islice(numbers, 1))
        np.random.set_state(self.generator)  # noqa: NPY002
        try:
            return list(itertools.islice(numbers, 1))
        finally:
            np.random.set_state(now)  # noqa: NPY002


class NumberOrder:
    """The passes of a loader, one after another.

    Args:
        batch_sampler: As for ``NumberPass``. If it has ``set_epoch`` and ``epoch``, passes are
            numbered by these.
    """

    def __init__(self, batch_sampler: Any) -> None:
        self._batch_sampler = batch_sampler
        self._current = NumberPass(batch_sampler, 0)
        self._is_begun = False

    def begin(self) -> NumberPass:
        """Start the pass of the loaded state, or the next pass."""
        if self._is_begun:
            before = self._current
            self._current = NumberPass(self._batch_sampler, before.epoch + (before.position > 0))
        self._is_begun = True
        epoch = getattr(self._batch_sampler, "epoch", None)
        if isinstance(epoch, int):
            self._current.epoch = epoch
        return self._current

    def state_dict(self, num_batches: int | None) -> dict[str, Any]:
        """Return the position of the last started pass, as JSON values.

        Args:
            num_batches: Number of batches of a pass; None if unknown.
        """
        current = self._current
        if num_batches is not None and current.position == num_batches:
            current = NumberPass(self._batch_sampler, current.epoch + 1)
        return {
            "epoch": current.epoch,
            "position": current.position,
            "numbers": current.checksum,
            "generator": _to_json(current.generator) if current.position else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the next pass from a state.

        Raises:
            ConfigError: ``state`` is not a state of this class.
        """
        given: object = state
        if not isinstance(given, Mapping) or given.keys() != _FIELDS:
            raise ConfigError(f"expected a state with {sorted(_FIELDS)}, got {given!r:.200}")
        counts = [state[name] for name in ("epoch", "position", "numbers")]
        if any(type(count) is not int or count < 0 for count in counts):
            raise ConfigError(f"expected whole numbers from 0 on in a state, got {counts}")
        epoch, position, numbers = counts
        generator = _from_json(state["generator"])
        self._current = NumberPass(self._batch_sampler, epoch, position, numbers, generator)
        self._current.is_restored = True
        self._is_begun = False
        set_epoch = getattr(self._batch_sampler, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(state["epoch"])


def _checksum(numbers: Any, before: int) -> int:
    return zlib.crc32(repr(numbers).encode(), before)


def _to_json(generator: Any) -> dict[str, Any] | None:
    if generator is None:
        return None
    _, key, position, has_gauss, gauss = generator
    words = base64.b64encode(np.asarray(key, "<u4").tobytes()).decode()
    return {"key": words, "position": position, "has_gauss": has_gauss, "gauss": gauss}


def _from_json(given: Any) -> Any:
    if given is None:
        return None
    try:
        key = np.frombuffer(base64.b64decode(given["key"], validate=True), "<u4", _KEY_WORDS)
        rest = (int(given["position"]), int(given["has_gauss"]), float(given["gauss"]))
    except (binascii.Error, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"expected a generator's state, got {given!r:.80}") from error
    return ("MT19937", key.astype(np.uint32), *rest)


# --- ``paddle.io.DataLoader``: batches of a data set, with worker processes of this package

# numpy takes seeds of 32 bits.
_SEED_MASK: Final = (1 << 32) - 1


class DataLoader:
    """Batches of a data set as in the original, with arrays instead of tensors.

    Every iteration is a separate pass. Numbered samples come in the order of the batch sampler,
    for every number of workers; workers of an iterable data set take turns. Workers are forks that
    start and end with the pass. The exception of a worker is raised here, after all batches before
    it.

    Args:
        dataset: Numbered samples (``__getitem__`` and ``__len__``), or an ``IterableDataset``.
        feed_list: Names of the columns, or objects with a ``name``; required if ``return_list`` is
            False.
        places: The CPU, given once per device.
        return_list: Whether batches come as they are; False yields a list with one mapping from
            name to column per place.
        batch_sampler: Iterable of lists of numbers; replaces the next three arguments.
        batch_size: Samples per batch; None yields unbatched samples.
        shuffle: Whether numbers are drawn in random order, from numpy's global generator.
        drop_last: Whether to omit a last batch with fewer samples.
        collate_fn: Function from a list of samples to a batch; with ``batch_size=None``, called
            with each sample.
        num_workers: Number of worker processes; 0 reads in this process. For every pass of
            workers, one number is drawn from numpy's global generator, which gives their seeds: so
            a new loader draws new numbers.
        use_buffer_reader: Whether a thread reads ahead if there are no workers.
        reader_buffer_size: Maximal number of batches that the thread is ahead.
        prefetch_factor: Maximal number of batches that each worker is ahead.
        use_shared_memory: Without effect: large arrays of workers always come in anonymous shared
            memory, which ``/dev/shm`` does not limit.
        timeout: Seconds that a batch of the workers may take; 0 for no limit.
        worker_init_fn: Called in each worker with its number, before its first sample.
        persistent_workers: Without effect: a fork takes milliseconds, and starts with the current
            state of the data set.

    Raises:
        ValueError: An argument is out of range, or two arguments contradict each other.
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
        self._num_places = count_cpus(places, is_fed=feed_list is not None)
        if feed_list is None and not return_list:
            raise ValueError("expected a feed_list with return_list=False")
        self._names = None if return_list else [str(getattr(v, "name", v)) for v in feed_list or ()]
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
        """Return the number of batches of a pass.

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
        """Start a pass, or continue the pass of a loaded state.

        Raises:
            WorkerDiedError: A worker was killed or has exited; raised by the pass, after all
                batches before.
            LoaderError: A batch of a worker takes longer than ``timeout``.
            ConfigError: The batch sampler yields other numbers than before the state was taken.
        """
        order = self._order.begin()
        batches = order.counted(self._batches(order))
        if self._names is None and self._num_places == 1:
            return batches
        return per_place(batches, self._num_places, names=self._names, drop_last=True)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the last started pass, as JSON values.

        The state counts batches, and contains the state of numpy's global generator if the order
        may depend on it. After the last batch it is the start of the next pass. The length of an
        iterable data set is unknown, so there the pass must be read to its end first.
        """
        return self._order.state_dict(None if self._is_iterable else len(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the next pass from a state.

        The number of workers may differ from that of the state if samples have numbers. An
        iterable data set is read again from its beginning, and the batches before the state are
        dropped.

        Raises:
            ConfigError: ``state`` is not a state of this class.
        """
        self._order.load_state_dict(state)

    def _batches(self, order: Any) -> Iterator[Any]:
        # Drawn before the numbers of samples, as in the original: the same seed gives its orders.
        seed = _drawn_seed() if self.num_workers else 0
        if self._is_iterable:
            return itertools.islice(self._streamed(seed), order.position, None)
        numbers = order.numbers(self.dataset)
        if self.num_workers:
            return iter_mapped(
                functools.partial(self._fetch.opened, num_workers=self.num_workers),
                lambda: numbers,
                self.num_workers,
                self._prefetch * self.num_workers,
                epoch=seed,
                timeout_s=self._timeout_s,
            )
        return self._read_ahead(lambda: map(self._fetch.by_number, numbers))

    def _streamed(self, seed: int) -> Iterator[Any]:
        if not self.num_workers:
            return self._read_ahead(self._fetch.all)
        shares = [
            functools.partial(self._fetch.share, number, self.num_workers)
            for number in range(self.num_workers)
        ]
        return iter_in_turn(shares, self._prefetch, epoch=seed, timeout_s=self._timeout_s)

    def _read_ahead(self, read: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        return iter_ahead(read, self._ahead) if self._ahead else read()


def _drawn_seed() -> int:
    """Return the seed of the workers of a pass, from numpy's global generator."""
    drawn = int(np.random.randint(0, sys.maxsize))  # noqa: NPY002 (the original draws from it)
    return drawn & _SEED_MASK or 1


def _require_from(least: int, **numbers: Any) -> None:
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or number < least:
            raise ValueError(f"expected {name} from {least} on, got {number!r}")
