"""``fluid.DataFeeder``: converts a batch of samples to arrays by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.compat.paddle.loading import fed, feed_variables
from trainfeed.decorators import collate
from trainfeed.readers import Reader, ReaderLike, Sample, open_reader

__all__ = ["DataFeeder"]


class DataFeeder:
    """Stacks batches of samples to named columns.

    Args:
        feed_list: Names, or objects with a ``name`` and optionally a ``dtype`` and a ``shape``,
            whose first size is the batch size; see ``FeedVariable``.
        place: Without effect: arrays are always in main memory.
        program: Without effect.

    Raises:
        ConfigError: The dtype of a variable does not exist in numpy, or its samples are sequences
            (``lod_level``).
    """

    def __init__(self, feed_list: Sequence[Any], place: Any = None, program: Any = None) -> None:
        del place, program
        self._variables = feed_variables(feed_list)

    def feed(self, iterable: Iterable[Sample]) -> dict[str, NDArray[Any]]:
        """Return the columns of one batch by name, each of shape ``(batch_size, *S)``.

        Raises:
            SampleShapeError: The samples differ in shape, have another number of columns, or do
                not have the shape of their variable. The error is a ValueError too.
        """
        columns = list(collate(list(iterable)))
        (converted,) = fed(iter([columns]), self._variables, are_ready=False)
        pairs = zip(self._variables, converted, strict=True)
        return {variable.name: np.asarray(column) for variable, column in pairs}

    def decorate_reader(self, reader: ReaderLike, multi_devices: bool = False) -> Reader:
        """Return a reader that yields ``feed(batch)`` for every batch of a reader.

        Raises:
            ValueError: ``multi_devices`` is true.
        """
        if multi_devices:
            raise ValueError("expected multi_devices=False: there is one place, the CPU")

        def read() -> Iterator[dict[str, NDArray[Any]]]:
            with open_reader(reader) as batches:
                for items in batches:
                    yield self.feed(items)

        return read
