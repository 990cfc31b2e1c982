"""The data sets of ``paddle.io``, and the samplers: numbers of samples, single or in batches."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

# --- The data sets of ``paddle.io``: samples by number, or iterable


class Dataset:
    """Samples by number; subclasses define ``__getitem__`` and ``__len__``."""

    def __getitem__(self, idx: int) -> Any:
        raise NotImplementedError(f"expected __getitem__ in {type(self).__name__}, there is none")

    def __len__(self) -> int:
        raise NotImplementedError(f"expected __len__ in {type(self).__name__}, there is none")


class _NoLengthError(RuntimeError, TypeError):
    """RuntimeError as in the original; TypeError, which means an unknown length to ``list()``."""


class IterableDataset(Dataset):
    """Samples in sequence, without numbers; subclasses define ``__iter__``."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"expected __iter__ in {type(self).__name__}, there is none")

    def __getitem__(self, idx: int) -> NoReturn:
        raise RuntimeError("samples of an IterableDataset have no numbers; iterate over the set")

    def __len__(self) -> NoReturn:
        raise _NoLengthError("an IterableDataset has no length; count its samples")


class TensorDataset(Dataset):
    """The rows of arrays, side by side.

    Args:
        tensors: Arrays, or objects that numpy converts to arrays, of one length.

    Raises:
        ValueError: ``tensors`` is empty, or the lengths differ.
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.tensors = [np.asarray(tensor) for tensor in tensors]
        _one_length("arrays", self.tensors)

    def __getitem__(self, idx: int) -> tuple[Any, ...]:
        return tuple(tensor[idx] for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class ComposeDataset(Dataset):
    """The fields of several data sets, side by side.

    Args:
        datasets: Data sets of one length.

    Raises:
        ValueError: ``datasets`` is empty, a data set is iterable, or the lengths differ.
    """

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = _numbered(datasets)
        _one_length("data sets", self.datasets)

    def __getitem__(self, idx: int) -> tuple[Any, ...]:
        fields: list[Any] = []
        for dataset in self.datasets:
            sample = dataset[idx]
            fields += sample if isinstance(sample, list | tuple) else [sample]
        return tuple(fields)

    def __len__(self) -> int:
        return len(self.datasets[0])


class ChainDataset(IterableDataset):
    """The samples of several iterable data sets, one after another.

    Raises:
        ValueError: ``datasets`` is empty, or a data set has numbered samples.
    """

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = _some("data sets", datasets)
        if not all(map(is_iterable, self.datasets)):
            raise ValueError("expected iterable data sets in ChainDataset; see ConcatDataset")

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)


class ConcatDataset(Dataset):
    """The samples of several data sets, numbered one after another.

    Raises:
        ValueError: ``datasets`` is empty, or a data set is iterable.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = _numbered(list(datasets))
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __getitem__(self, idx: int) -> Any:
        number = idx + len(self) if idx < 0 else idx
        if not 0 <= number < len(self):
            raise IndexError(f"expected a sample from 0 to {len(self) - 1}, got {idx}")
        which = bisect.bisect_right(self.cumulative_sizes, number)
        return self.datasets[which][number - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class Subset(Dataset):
    """The samples of a data set with the given numbers."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: int) -> Any:
        return self.dataset[self.indices[idx]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset]:
    """Return parts of a data set that have no sample in common.

    The parts are drawn from numpy's global generator; the original uses Paddle's generator.

    Args:
        dataset: The data set.
        lengths: Lengths of the parts, whose sum is the length of the data set; or fractions with
            sum 1. Fractions are rounded down, and the first parts get the remaining samples, one
            each.
        generator: Without effect, as in the original.

    Raises:
        ValueError: The lengths have another sum, or a length is negative.
    """
    del generator
    sizes = _sizes(len(dataset), lengths)
    if sum(sizes) != len(dataset) or min(lengths) < 0:
        raise ValueError(
            f"expected lengths from 0 on with the sum {len(dataset)}, which the data set has, got"
            f" {list(lengths)}"
        )
    numbers = np.random.permutation(len(dataset)).tolist()  # noqa: NPY002 (the original's)
    ends = itertools.accumulate(sizes)
    return [
        Subset(dataset, numbers[end - size : end]) for end, size in zip(ends, sizes, strict=True)
    ]


def is_iterable(dataset: Any) -> bool:
    """Return whether a data set is iterable, by this package's or the original's class."""
    if any(kind.__name__ == "IterableDataset" for kind in type(dataset).__mro__):
        return True
    return not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"))


def _sizes(total: int, lengths: Sequence[float]) -> list[int]:
    if not math.isclose(sum(lengths), 1) or sum(lengths) == total == 1:
        return [int(length) for length in lengths]
    sizes = [math.floor(total * fraction) for fraction in lengths]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    return sizes


def _some(what: str, given: Sequence[Any]) -> list[Any]:
    if not given:
        raise ValueError(f"expected at least one of the {what}, got none")
    return list(given)


def _numbered(datasets: Sequence[Any]) -> list[Any]:
    if any(map(is_iterable, _some("data sets", datasets))):
        raise ValueError("expected data sets with numbered samples, got an iterable one")
    return list(datasets)


def _one_length(what: str, given: Sequence[Any]) -> None:
    lengths = {len(each) for each in _some(what, given)}
    if len(lengths) > 1:
        raise ValueError(f"expected {what} of one length, got {sorted(lengths)}")


# --- The samplers of ``paddle.io``: numbers of samples, one by one or in batches


class Sampler:
    """Numbers of samples; subclasses define ``__iter__``.

    Args:
        data_source: The data set of the samples.
    """

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"expected __iter__ in {type(self).__name__}, there is none")


class SequenceSampler(Sampler):
    """All numbers of a data set, from 0."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Numbers in random order.

    Args:
        data_source: An object with a length.
        replacement: Whether a number may be drawn several times.
        num_samples: Count of numbers to draw; None for all.
        generator: An iterator over numbers, used instead of numpy's generator.

    Raises:
        TypeError: ``replacement`` is not a bool.
        ValueError: ``num_samples`` is below 1, or without replacement above the length.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Iterator[int] | None = None,
    ) -> None:
        super().__init__(data_source)
        if not isinstance(replacement, bool):
            raise TypeError(f"expected replacement as True or False, got {replacement!r}")
        self.replacement = replacement
        self.generator = generator
        self._num_samples = num_samples
        most = "" if replacement else f" to {len(data_source)}"
        if (
            type(self.num_samples) is not int
            or self.num_samples < 1
            or (not replacement and self.num_samples > len(data_source))
        ):
            raise ValueError(f"expected num_samples from 1{most}, got {self.num_samples!r}")

    @property
    def num_samples(self) -> int:
        """Count of numbers that a pass draws."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        if self.generator is not None:
            for _ in range(self.num_samples):
                for number in self.generator:
                    yield number
                    break
            return
        numbers = np.arange(len(self.data_source))
        yield from np.random.choice(  # noqa: NPY002 (the original's)
            numbers, self.num_samples, replace=self.replacement
        ).tolist()

    def __len__(self) -> int:
        return self.num_samples


class WeightedRandomSampler(Sampler):
    """Numbers drawn with the given weights.

    Args:
        weights: One weight per number, 0 or more, at least one above 0.
        num_samples: Count of numbers to draw.
        replacement: Whether a number may be drawn several times.

    Raises:
        ValueError: ``weights`` or ``num_samples`` is out of range, or ``replacement`` is not a
            bool.
    """

    def __init__(
        self, weights: Sequence[float] | NDArray[Any], num_samples: int, replacement: bool = True
    ) -> None:
        super().__init__()
        if not isinstance(replacement, bool):
            raise ValueError(f"expected replacement as True or False, got {replacement!r}")  # noqa: TRY004 (the original's)
        self.weights = np.asarray(weights, np.float64)
        self.num_samples = num_samples
        self.replacement = replacement
        good = self.weights.ndim == 1 and np.isfinite(self.weights).all()
        if not good or (self.weights < 0).any() or not self.weights.any():
            raise ValueError("expected weights of 0 or more, one of them above, in one dimension")
        most = np.inf if replacement else np.count_nonzero(self.weights)
        if type(num_samples) is not int or not 0 < num_samples <= most:
            raise ValueError(
                f"expected num_samples from 1 to {most} positive weights, got {num_samples!r}"
            )

    def __iter__(self) -> Iterator[int]:
        odds = self.weights / self.weights.sum()
        yield from np.random.choice(  # noqa: NPY002 (the original's)
            len(odds), self.num_samples, self.replacement, odds
        ).tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given numbers in random order.

    Raises:
        ValueError: ``indices`` is empty.
    """

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__()
        if not len(indices):
            raise ValueError("expected at least one number in SubsetRandomSampler, got none")
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        order = np.random.permutation(len(self.indices)).tolist()  # noqa: NPY002 (the original's)
        return (self.indices[i] for i in order)

    def __len__(self) -> int:
        return len(self.indices)


class BatchSampler(Sampler):
    """Lists of numbers.

    Args:
        dataset: An object with a length; give either this or ``sampler``.
        sampler: An iterable of numbers.
        shuffle: Whether the numbers of ``dataset`` are drawn in random order.
        batch_size: Numbers per list.
        drop_last: Whether to omit a last list with fewer numbers.

    Raises:
        ValueError: Both or neither of ``dataset`` and ``sampler`` are given, the data set is
            iterable, or ``batch_size`` is below 1.
    """

    def __init__(
        self,
        dataset: Any = None,
        sampler: Iterable[int] | None = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset)
        _check(dataset, sampler, shuffle, batch_size, drop_last)
        if sampler is not None:
            self.sampler: Any = sampler
        else:
            self.sampler = RandomSampler(dataset) if shuffle else SequenceSampler(dataset)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for number in self.sampler:
            batch.append(number)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)
        return full + (rest > 0 and not self.drop_last)


def _check(dataset: Any, sampler: Any, shuffle: Any, batch_size: Any, drop_last: Any) -> None:
    if (dataset is None) == (sampler is None):
        raise ValueError("expected either dataset or sampler in BatchSampler, got both or none")
    if sampler is not None and (shuffle or not isinstance(sampler, Iterable)):
        raise ValueError(f"expected an iterable of numbers and shuffle=False, got {sampler!r:.80}")
    if dataset is not None and is_iterable(dataset):
        raise ValueError("expected a data set with numbered samples, got an iterable one")
    if type(batch_size) is not int or batch_size < 1:
        raise ValueError(f"expected batch_size from 1 on, got {batch_size!r}")
    for name, flag in (("shuffle", shuffle), ("drop_last", drop_last)):
        if flag not in (True, False):
            raise ValueError(f"expected {name} as True or False, got {flag!r}")
