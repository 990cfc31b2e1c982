"""Faults that are planted into one field or component of a day."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fault", "faults_of"]

Column: TypeAlias = NDArray[Any]


class Fault(NamedTuple):
    """A fault.

    Attributes:
        name: What happens.
        size: How much of it.
        plant: Returns the column of the faulty day from the one of the day, that of the reference,
            and a generator. Masked where a value is absent.
    """

    name: str
    size: str
    plant: Callable[[Column, Column, np.random.Generator], Column]


def faults_of(dtype: np.dtype[Any]) -> Iterator[Fault]:
    """Yield the faults that a column of a dtype can have."""
    for share in (0.01, 0.05, 0.2):
        yield Fault("values absent", f"{share:.0%}", _absent(share))
    yield Fault("constant", "", lambda now, _before, _random: np.full_like(now, now[0]))
    if dtype.kind == "f":
        for offset in (0.1, 0.25, 0.5, 1.0):
            yield Fault("offset, in standard deviations", f"{offset}", _offset(offset))
        for factor in (1.05, 1.1, 1.25, 1.5):
            yield Fault("scaled", f"times {factor}", _scaled(factor))
        yield Fault("another unit", "times 1.609", _scaled(1.609))
        yield Fault("another unit", "times 1000", _scaled(1000.0))
        for share in (0.01, 0.05, 0.2):
            yield Fault("NaN", f"{share:.0%}", _replaced(share, np.nan))
        for share in (0.05, 0.2):
            yield Fault("0 in place of values", f"{share:.0%}", _replaced(share, 0))
        return
    for rank, name in ((0, "the most frequent value"), (3, "the fourth")):
        yield Fault("samples of a value doubled", name, _doubled(rank))
    for share in (0.01, 0.05, 0.2):
        yield Fault("a new value", f"{share:.0%}", _replaced(share, 70_000))
    yield Fault(
        "all values mapped anew", "", lambda now, _before, _random: (now * 7919 + 13) % 65_521
    )
    yield Fault(
        "values shuffled among samples", "", lambda now, _before, random: random.permutation(now)
    )


def _mapped(now: Column, _before: Column, _random: np.random.Generator) -> Column:
    return (now * 7919 + 13) % 65_521


def _shuffled(now: Column, _before: Column, random: np.random.Generator) -> Column:
    return random.permutation(now)


def _absent(share: float) -> Callable[..., Column]:
    def plant(now: Column, _before: Column, random: np.random.Generator) -> Column:
        return np.ma.array(now, mask=random.random(len(now)) < share)

    return plant


def _offset(offset: float) -> Callable[..., Column]:
    return lambda now, before, _random: (now + offset * before.std()).astype(now.dtype)


def _scaled(factor: float) -> Callable[..., Column]:
    return lambda now, _before, _random: (now * factor).astype(now.dtype)


def _replaced(share: float, value: float) -> Callable[..., Column]:
    def plant(now: Column, _before: Column, random: np.random.Generator) -> Column:
        return np.where(random.random(len(now)) < share, value, now).astype(now.dtype)

    return plant


def _doubled(rank: int) -> Callable[..., Column]:
    def plant(now: Column, before: Column, _random: np.random.Generator) -> Column:
        values, counts = np.unique(before, return_counts=True)
        ranked = values[np.argsort(-counts, kind="stable")]
        value = ranked[min(rank, len(ranked) - 1)]
        return np.concatenate([now, now[now == value]])

    return plant
