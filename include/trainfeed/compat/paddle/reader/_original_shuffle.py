"""``paddle.reader.shuffle`` in the order of the original, which Python's ``random`` decides."""

from __future__ import annotations

import random
from collections.abc import Iterator

from trainfeed import decorators
from trainfeed.readers import Reader, ReaderLike, Sample, open_reader

__all__ = ["shuffle"]


def shuffle(reader: ReaderLike, buf_size: int, *, seed: int | None = None) -> Reader:
    """Return a reader over the same samples, in random order within windows of ``buf_size``.

    Args:
        reader: The reader.
        buf_size: Samples per window, which are held in memory. 0 and 1 keep the order.
        seed: None draws every order from the global generator of ``random``, as the original does:
            every pass of every reader has another order, and ``random.seed`` makes them come again.
            With a seed, the order is that of ``trainfeed.decorators.shuffle``, which can be
            resumed.

    Raises:
        ValueError: ``buf_size`` is negative, or ``seed`` is not a whole number.
    """
    keyed = decorators.shuffle(reader, buf_size, seed=seed or 0)
    if seed is not None:
        return keyed

    def shuffled() -> Iterator[Sample]:
        window: list[Sample] = []
        with open_reader(reader) as samples:
            for sample in samples:
                window.append(sample)
                if len(window) >= buf_size:
                    yield from _drawn(window)
                    window.clear()
        yield from _drawn(window)

    return _Unrepeatable(shuffled, batched=bool(getattr(reader, "batched", False)))


def _drawn(window: list[Sample]) -> list[Sample]:
    random.shuffle(window)  # noqa: TID251 (the original's order; with a seed it is repeatable)
    return window


class _Unrepeatable:
    """A reader of which ``resumable`` knows that no pass can be repeated.

    Args:
        read: Starts a pass.
        batched: Whether samples are batches.
    """

    unordered = "paddle.reader.shuffle() without a seed draws a new order each time; give a seed"

    def __init__(self, read: Reader, *, batched: bool) -> None:
        self._read = read
        self.batched = batched

    def __call__(self) -> Iterator[Sample]:
        return iter(self._read())
