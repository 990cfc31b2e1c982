"""``from_generator``: batches that a thread or a child process makes of a user's generator."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from trainfeed.decorators import batch, set_epoch
from trainfeed.decorators.workers import before_fork, iter_ahead, iter_in_process
from trainfeed.errors import ConfigError, LoaderError
from trainfeed.loader._generator_columns import (
    ColumnBatch,
    collated,
    count_cpus,
    num_bytes,
    refuse_batch,
)
from trainfeed.loader._generator_memory import require_memory
from trainfeed.loader._options import whole_value
from trainfeed.readers import ReaderLike, open_reader

__all__ = ["GeneratorLoader"]

_Batches: TypeAlias = Callable[[], Iterator[ColumnBatch]]


class GeneratorLoader:
    """Batches of a generator, prepared ahead; iterate it, or call it and iterate the result.

    Every iteration starts a pass of its own, also while another one goes on. A pass ends with its
    iterator: no thread, process or memory is left. What the generator raises is raised in the
    consumer, after all batches that came before.

    Args:
        capacity: At most so many batches are ahead of the consumer.
        feed_list: Names of the columns, or objects with a ``name``. With it the loader gives what
            static graphs take, see ``return_list``.
        use_double_buffer: Of no effect: batches are not copied to a device.
        iterable: Must be True with ``feed_list``; of no effect otherwise.
        return_list: With ``feed_list``: a list with one list of columns per place, in place of one
            mapping from name to column per place.
        use_multiprocess: One child process, a fork of this one, makes the batches, which come in
            anonymous shared memory; a thread does otherwise. Order and bytes are the same.
        drop_last: With ``feed_list`` and several places: leave out last batches that are fewer
            than the places.

    Raises:
        ValueError: ``capacity`` is missing or below 1, or ``iterable`` is False with
            ``feed_list``.
    """

    def __init__(  # noqa: PLR0913 (the original's arguments)
        self,
        *,
        capacity: int | None,
        feed_list: Sequence[Any] | None = None,
        use_double_buffer: bool = True,  # noqa: ARG002
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> None:
        if feed_list is not None and not iterable:
            raise ValueError("expected iterable=True: start() and reset() need Paddle's executor")
        self._capacity = whole_value("capacity", capacity, 1)
        self._names = None if feed_list is None else [str(getattr(v, "name", v)) for v in feed_list]
        self._return_list = return_list
        self._use_multiprocess = use_multiprocess
        self._drop_last = drop_last
        self._source: ReaderLike | None = None
        self._batches: _Batches | None = None
        self._num_places = 1
        self._epoch = 0

    @classmethod
    def from_generator(  # noqa: PLR0913, PLR0917 (the original's arguments)
        cls,
        feed_list: Sequence[Any] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> GeneratorLoader:
        """Return a loader without a source; see the class for the arguments."""
        return cls(
            capacity=capacity,
            feed_list=feed_list,
            use_double_buffer=use_double_buffer,
            iterable=iterable,
            return_list=return_list,
            use_multiprocess=use_multiprocess,
            drop_last=drop_last,
        )

    def set_sample_generator(
        self, reader: ReaderLike, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> GeneratorLoader:
        """Take samples: each item is a tuple or list of columns, or the only column.

        Args:
            reader: A reader of samples.
            batch_size: Samples in a batch.
            drop_last: Leave out a last batch that has fewer.
            places: Where batches are wanted: the CPU, once per device.

        Raises:
            ValueError: ``batch_size`` is below 1, or the reader says that it gives batches.
            ConfigError: A place is not the CPU.
            LoaderError: The reader gives batches; raised by a pass.
        """
        sized = batch(reader, batch_size, drop_last)

        def batches() -> Iterator[ColumnBatch]:
            return collated(sized, check=refuse_batch)

        return self._set(reader, batches, places)

    def set_sample_list_generator(self, reader: ReaderLike, places: Any = None) -> GeneratorLoader:
        """Take batches as lists of samples, which are stacked column by column.

        Raises:
            ConfigError: A place is not the CPU.
            SampleShapeError: Samples do not stack; raised by a pass.
        """

        def batches() -> Iterator[ColumnBatch]:
            return collated(reader)

        return self._set(reader, batches, places)

    def set_batch_generator(self, reader: ReaderLike, places: Any = None) -> GeneratorLoader:
        """Take batches as they are: columns that are arrays already, or a mapping of such.

        Raises:
            ConfigError: A place is not the CPU.
        """

        def batches() -> Iterator[ColumnBatch]:
            with open_reader(reader) as iterator:
                for item in iterator:
                    if isinstance(item, Mapping):
                        yield {name: np.asarray(value) for name, value in item.items()}
                    else:
                        columns = item if isinstance(item, tuple | list) else (item,)
                        yield [np.asarray(column) for column in columns]

        return self._set(reader, batches, places)

    def set_epoch(self, epoch: int) -> None:
        """Make the next pass that of ``epoch``, for readers that shuffle."""
        self._epoch = epoch

    def __call__(self) -> Iterator[Any]:
        """Start a pass."""
        return iter(self)

    def __iter__(self) -> Iterator[Any]:
        """Start a pass.

        Raises:
            LoaderError: No source is set.
            WorkerDiedError: The child process was killed or has exited; raised by the pass, after
                all batches that came before.
            MemoryLimitError: The batches ahead would not fit the memory; raised by the pass.
        """
        if self._batches is None or self._source is None:
            raise LoaderError("expected a source of batches, none is set; call a set_… method")
        epoch = self._epoch
        self._epoch += 1
        return self._shaped(self._ahead(self._source, self._batches, epoch))

    def _set(self, reader: ReaderLike, batches: _Batches, places: Any) -> GeneratorLoader:
        self._num_places = count_cpus(places)
        if self._names is None and self._num_places > 1:
            raise ConfigError(
                f"expected one place without a feed_list, got {self._num_places}; start one"
                " process per device"
            )
        self._source, self._batches = reader, batches
        return self

    def _ahead(self, source: ReaderLike, batches: _Batches, epoch: int) -> Iterator[ColumnBatch]:
        capacity = self._capacity

        def read() -> Iterator[ColumnBatch]:
            # A child has a copy of the source that has not seen the passes before.
            set_epoch(source, epoch)
            return batches()

        if self._use_multiprocess:
            return iter_in_process(
                lambda: _checked(read, capacity),
                capacity,
                epoch=epoch,
                prepare=lambda: before_fork([source]),
            )
        return iter_ahead(read, capacity)

    def _shaped(self, batches: Iterator[ColumnBatch]) -> Iterator[Any]:
        names = self._names
        if names is None:
            return batches
        return self._per_place(batches, names)

    def _per_place(self, batches: Iterator[ColumnBatch], names: list[str]) -> Iterator[Any]:
        with open_reader(lambda: batches):
            while group := list(itertools.islice(batches, self._num_places)):
                if len(group) < self._num_places and self._drop_last:
                    return
                yield [self._named(columns, names) for columns in group]

    def _named(self, columns: ColumnBatch, names: list[str]) -> ColumnBatch:
        if isinstance(columns, dict):
            columns = [columns[name] for name in names]
        if len(columns) != len(names):
            raise LoaderError(
                f"expected {len(names)} columns as in feed_list {names}, got {len(columns)}"
            )
        return columns if self._return_list else dict(zip(names, columns, strict=True))


def _checked(read: _Batches, capacity: int) -> Iterator[ColumnBatch]:
    with open_reader(read) as iterator:
        for number, columns in enumerate(iterator):
            if not number:
                require_memory(capacity, num_bytes(columns))
            yield columns
