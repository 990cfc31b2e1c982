"""``from_generator``: batches that a thread or a child process makes of a user's generator."""

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
    """Batches of a generator, prepared ahead; iterate it, or call it and iterate the result.

    Every iteration starts a pass of its own, also while another one goes on. A pass ends with its
    iterator: no thread, process or memory is left. What the generator raises is raised in the
    consumer, after all batches that came before.

    Args:
        capacity: At most so many batches are ahead of the consumer.
        feed_list: Names of the columns, or objects with a ``name`` and, if they have them, a
            ``shape`` and a ``dtype``, into which samples are brought and which batches must have;
            see ``FeedVariable``. With it the loader gives what static graphs take, see
            ``return_list``.
        use_double_buffer: Of no effect: batches are not copied to a device.
        iterable: With ``feed_list``, False makes a loader that is not iterated: ``start()`` begins
            a pass, ``read_next()`` gives what the original's executor would have been fed, and
            raises ``PassEndedError`` at the end, ``reset()`` ends the pass. Without it, of no
            effect, as in the original.
        return_list: With ``feed_list``: a list with one list of columns per place, in place of one
            mapping from name to column per place.
        use_multiprocess: One child process, a fork of this one, makes the batches, which come in
            anonymous shared memory; a thread does otherwise. Order and bytes are the same.
        drop_last: With ``feed_list`` and several places: leave out last batches that are fewer
            than the places.

    Attributes:
        iterable: Whether the loader is iterated.
        queue: Says how many batches wait.

    Raises:
        ValueError: ``capacity`` is missing or below 1.
        ConfigError: A variable has a type that numpy does not have, or sequences as samples.
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
            return self._fed(collated(sized, check=refuse_batch))

        return self._set(reader, batches, places)

    def set_sample_list_generator(self, reader: ReaderLike, places: Any = None) -> GeneratorLoader:
        """Take batches as lists of samples, which are stacked column by column.

        Raises:
            ConfigError: A place is not the CPU.
            SampleShapeError: Samples do not stack; raised by a pass.
        """

        def batches() -> Iterator[ColumnBatch]:
            return self._fed(collated(reader))

        return self._set(reader, batches, places)

    def set_batch_generator(self, reader: ReaderLike, places: Any = None) -> GeneratorLoader:
        """Take batches as they are: columns that are arrays already, or a mapping of such.

        Raises:
            ConfigError: A place is not the CPU.
            SampleShapeError: A column is not what its variable in ``feed_list`` says; raised by a
                pass.
        """

        def batches() -> Iterator[ColumnBatch]:
            return self._fed(as_arrays(reader), are_ready=True)

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
            LoaderError: No source is set, or the loader is not iterable.
            WorkerDiedError: The child process was killed or has exited; raised by the pass, after
                all batches that came before.
            MemoryLimitError: The batches ahead would not fit the memory; raised by the pass.
        """
        self._require(iterable=True, what="iterate it")
        return self._pass()

    def start(self) -> None:
        """Start a pass of a loader that is not iterable; its first batch is made when it is read.

        Raises:
            LoaderError: No source is set, the loader is iterable, or the pass before is going on.
        """
        self._require(iterable=False, what="start()")
        self._started.start(self._pass)

    def read_next(self) -> Any:
        """Return the next batch of the pass that was started, as iterating would give it.

        Raises:
            PassEndedError: All were read.
            LoaderError: No pass was started, or the loader is iterable.
            WorkerDiedError: See ``__iter__``.
            MemoryLimitError: See ``__iter__``.
        """
        self._require(iterable=False, what="read_next()")
        return self._started.read_next()

    def reset(self) -> None:
        """End the pass that was started, wherever it is; ``start`` begins the next one.

        Raises:
            LoaderError: The loader is iterable: a pass of it ends with its iterator.
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
            # A child has a copy of the source that has not seen the passes before.
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
            )
        )

    def _shaped(self, batches: Iterator[ColumnBatch]) -> Iterator[Any]:
        if self._variables is None:
            return batches
        names = None if self._return_list else [variable.name for variable in self._variables]
        return per_place(batches, self._num_places, names=names, drop_last=self._drop_last)
