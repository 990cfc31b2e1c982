"""The data sets of ``paddle.io``: samples by number, or iterable."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

__all__ = [
    "ChainDataset",
    "ComposeDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "Subset",
    "TensorDataset",
    "is_iterable",
    "random_split",
]


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
