"""``from_generator``: batches of a user's generator, made by a thread or a child process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from trainfeed.compat.paddle.loading._feed_variables import fed, feed_variables
from trainfeed.compat.paddle.loading._generator_columns import (
    ColumnBatch,
    as_arrays,
    collated,
    count_cpus,
    per_place,
    refuse_batch,
)
from trainfeed.compat.paddle.loading._generator_memory import fitting
from trainfeed.compat.paddle.loading._started_pass import BatchQueue, StartedPass
from trainfeed.decorators import batch, before_fork, set_epoch
from trainfeed.errors import ConfigError, LoaderError
from trainfeed.processes import iter_ahead, iter_in_process
from trainfeed.readers import ReaderLike
from trainfeed.whole_numbers import whole_value

__all__ = ["GeneratorLoader"]

_Batches: TypeAlias = Callable[[], Iterator[ColumnBatch]]


class GeneratorLoader:
    """Batches of a generator, prepared ahead; iterate the loader, or the result of a call.

    Every iteration starts a separate pass, also while another pass runs. A pass ends with its
    iterator: no thread, process or memory remains. An exception of the generator is raised in the
    consumer, after all batches before it.

    Args:
        capacity: Maximal number of batches ahead of the consumer.
        feed_list: Names of the columns, or objects with a ``name`` and optionally a ``shape`` and
            a ``dtype``. Samples are converted to these; batches must have them. See
            ``FeedVariable``. With a feed list, batches have the form for static graphs, see
            ``return_list``.
        use_double_buffer: Without effect: batches are not copied to a device.
        iterable: Whether the loader is iterated. With ``feed_list`` and False, ``start()`` starts
            a pass, ``read_next()`` returns the next batch, which the original feeds to its
            executor, and raises ``PassEndedError`` at the end, and ``reset()`` ends the pass.
            Without ``feed_list``, without effect, as in the original.
        return_list: With ``feed_list``: whether to yield a list with one list of columns per
            place, instead of one mapping from name to column per place.
        use_multiprocess: Whether a child process, a fork of this one, makes the batches and passes
            them in anonymous shared memory; otherwise a thread makes them. Order and bytes are
            equal.
        drop_last: With ``feed_list`` and several places: whether to omit the last batches if they
            are fewer than the places.

    Attributes:
        iterable: Whether the loader is iterated.
        queue: Counts the batches that wait for the consumer.

    Raises:
        ValueError: ``capacity`` is missing or below 1.
        ConfigError: The dtype of a variable does not exist in numpy, or its samples are sequences
            (``lod_level``).
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
        self._capacity = whole_value("capacity", capacity, 1)
        self._variables = None if feed_list is None else feed_variables(feed_list)
        self.iterable = bool(iterable) or feed_list is None
        self.queue = BatchQueue(self._capacity)
        self._started: StartedPass[Any] = StartedPass()
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
        """Set a reader of samples as source: tuples or lists of columns, or the only column.

        Args:
            reader: A reader of samples.
            batch_size: Samples per batch.
            drop_last: Whether to omit a last batch with fewer samples.
            places: The CPU, given once per device.

        Raises:
            ValueError: ``batch_size`` is below 1, or the reader declares that it yields batches.
            ConfigError: A place is not the CPU.
            LoaderError: The reader yields batches; raised by a pass.
        """
        sized = batch(reader, batch_size, drop_last)

        def batches() -> Iterator[ColumnBatch]:
            return self._fed(collated(sized, check=refuse_batch))

        return self._set(reader, batches, places)

    def set_sample_list_generator(self, reader: ReaderLike, places: Any = None) -> GeneratorLoader:
        """Set a reader of lists of samples as source; the samples are stacked column by column.

        Raises:
            ConfigError: A place is not the CPU.
            SampleShapeError: Samples differ in shape; raised by a pass.
        """

        def batches() -> Iterator[ColumnBatch]:
            return self._fed(collated(reader))

        return self._set(reader, batches, places)

    def set_batch_generator(self, reader: ReaderLike, places: Any = None) -> GeneratorLoader:
        """Set a reader of batches as source: sequences or mappings of columns that are arrays.

        Raises:
            ConfigError: A place is not the CPU.
            SampleShapeError: A column does not fit its variable in ``feed_list``; raised by a pass.
        """

        def batches() -> Iterator[ColumnBatch]:
            return self._fed(as_arrays(reader), are_ready=True)

        return self._set(reader, batches, places)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next pass, for readers that shuffle."""
        self._epoch = epoch

    def __call__(self) -> Iterator[Any]:
        """Start a pass."""
        return iter(self)

    def __iter__(self) -> Iterator[Any]:
        """Start a pass.

        Raises:
            LoaderError: No source is set, or the loader is not iterable.
            WorkerDiedError: The child process was killed or has exited; raised by the pass, after
                all batches before.
            MemoryLimitError: The batches ahead would not fit into memory; raised by the pass.
        """
        self._require(iterable=True, what="iterate it")
        return self._pass()

    def start(self) -> None:
        """Start a pass of a loader that is not iterable; batches are made from the first read on.

        Raises:
            LoaderError: No source is set, the loader is iterable, or the previous pass has not
                ended.
        """
        self._require(iterable=False, what="start()")
        self._started.start(self._pass)

    def read_next(self) -> Any:
        """Return the next batch of the started pass, in the form that iterating yields.

        Raises:
            PassEndedError: All batches of the pass were read.
            LoaderError: No pass was started, or the loader is iterable.
            WorkerDiedError: See ``__iter__``.
            MemoryLimitError: See ``__iter__``.
        """
        self._require(iterable=False, what="read_next()")
        return self._started.read_next()

    def reset(self) -> None:
        """End the started pass at any position; ``start`` starts the next one.

        Raises:
            LoaderError: The loader is iterable, so its passes end with their iterators.
        """
        self._require(iterable=False, what="reset()")
        self._started.reset()

    def _require(self, *, iterable: bool, what: str) -> None:
        if self.iterable is not iterable:
            other = "start(), read_next() and reset()" if iterable else "iterate it"
            raise LoaderError(
                f"expected iterable={iterable} for {what}, this loader has iterable={not iterable};"
                f" {other}, or make it with iterable={iterable}"
            )

    def _pass(self) -> Iterator[Any]:
        if self._batches is None or self._source is None:
            raise LoaderError("expected a source of batches, none is set; call a set_… method")
        epoch = self._epoch
        self._epoch += 1
        return self._shaped(self._ahead(self._source, self._batches, epoch))

    def _set(self, reader: ReaderLike, batches: _Batches, places: Any) -> GeneratorLoader:
        self._num_places = count_cpus(places)
        if self._variables is None and self._num_places > 1:
            raise ConfigError(
                f"expected one place without a feed_list, got {self._num_places}; start one"
                " process per device"
            )
        self._source, self._batches = reader, batches
        return self

    def _fed(
        self, batches: Iterator[ColumnBatch], *, are_ready: bool = False
    ) -> Iterator[ColumnBatch]:
        if self._variables is None:
            return batches
        return fed(batches, self._variables, are_ready=are_ready)

    def _ahead(self, source: ReaderLike, batches: _Batches, epoch: int) -> Iterator[ColumnBatch]:
        capacity, counts = self._capacity, self.queue.begin()

        def read() -> Iterator[ColumnBatch]:
            # Set in each pass: a child's copy of the source does not know the passes of earlier
            # children.
            set_epoch(source, epoch)
            return counts.made(batches())

        if not self._use_multiprocess:
            return counts.taken(iter_ahead(read, capacity))
        return counts.taken(
            iter_in_process(
                lambda: fitting(read, capacity),
                capacity,
                epoch=epoch,
                prepare=lambda: before_fork([source]),
                hands_over=True,
            )
        )

    def _shaped(self, batches: Iterator[ColumnBatch]) -> Iterator[Any]:
        if self._variables is None:
            return batches
        names = None if self._return_list else [variable.name for variable in self._variables]
        return per_place(batches, self._num_places, names=names, drop_last=self._drop_last)
