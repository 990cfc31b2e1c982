"""``fluid.io``: loaders over generators and data sets, and the decorators again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainfeed.compat.paddle import reader
from trainfeed.compat.paddle.io.datasets import BatchSampler, Dataset, IterableDataset
from trainfeed.compat.paddle.io.loader import DataLoader
from trainfeed.compat.paddle.loading import GeneratorLoader
from trainfeed.compat.paddle.reader import *  # noqa: F403 (all of them, as the original)
from trainfeed.decorators import batch
from trainfeed.readers import ReaderLike

__all__ = [
    "BatchSampler",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "PyReader",
    "batch",
]
__all__ += reader.__all__


class PyReader(GeneratorLoader):
    """``GeneratorLoader`` under its older name, with the older names of its methods."""

    def __init__(
        self,
        feed_list: Sequence[Any] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
    ) -> None:
        super().__init__(
            capacity=capacity,
            feed_list=feed_list,
            use_double_buffer=use_double_buffer,
            iterable=iterable,
            return_list=return_list,
        )

    def decorate_sample_generator(
        self,
        sample_generator: ReaderLike,
        batch_size: int,
        drop_last: bool = True,
        places: Any = None,
    ) -> None:
        """Set a reader of samples as source; see ``set_sample_generator``."""
        self.set_sample_generator(sample_generator, batch_size, drop_last, places)

    def decorate_sample_list_generator(self, reader: ReaderLike, places: Any = None) -> None:
        """Set a reader of lists of samples as source; see ``set_sample_list_generator``."""
        self.set_sample_list_generator(reader, places)

    def decorate_batch_generator(self, reader: ReaderLike, places: Any = None) -> None:
        """Set a reader of batches as source; see ``set_batch_generator``."""
        self.set_batch_generator(reader, places)
