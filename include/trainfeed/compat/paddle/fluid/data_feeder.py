"""``fluid.DataFeeder``: a batch of samples as arrays by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.compat.paddle.loading import FeedVariable
from trainfeed.decorators import collate
from trainfeed.errors import SampleShapeError
from trainfeed.readers import Reader, ReaderLike, Sample, open_reader

__all__ = ["DataFeeder"]


class DataFeeder:
    """Stacks the columns of batches and names them.

    Args:
        feed_list: Names, or objects with a ``name`` and, if they have them, a ``dtype`` and a
            ``shape``, of which the first size is that of the batch; see ``FeedVariable``.
        place: The CPU; arrays are in main memory.
        program: Of no effect.

    Raises:
        ConfigError: A variable has a type that numpy does not have, or sequences as samples.
    """

    def __init__(self, feed_list: Sequence[Any], place: Any = None, program: Any = None) -> None:
        del place, program
        self._variables = [FeedVariable.of(given) for given in feed_list]

    def feed(self, iterable: Iterable[Sample]) -> dict[str, NDArray[Any]]:
        """Return the columns of one batch by name.

        Raises:
            SampleShapeError: The samples do not stack, have another count of columns, or do not
                have the shape of their variable; a ValueError.
        """
        columns = collate(list(iterable))
        if len(columns) != len(self._variables):
            raise SampleShapeError(
                f"expected {len(self._variables)} columns as in feed_list, samples have"
                f" {len(columns)}"
            )
        pairs = zip(self._variables, columns, strict=True)
        return {v.name: np.asarray(v.of_samples(column)) for v, column in pairs}

    def decorate_reader(self, reader: ReaderLike, multi_devices: bool = False) -> Reader:
        """Return a reader over ``feed(batch)`` of the batches of a reader.

        Raises:
            ValueError: Several devices are asked for.
        """
        if multi_devices:
            raise ValueError("expected multi_devices=False: there is one place, the CPU")

        def read() -> Iterator[dict[str, NDArray[Any]]]:
            with open_reader(reader) as batches:
                for items in batches:
                    yield self.feed(items)

        return read
