"""Paddle's loader over generators, and its sampler of index batches, with arrays.

One file, because scripts import all these names from it.
"""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from trainfeed.compat.paddle.places import count_cpus
from trainfeed.core.memory_group import available_bytes
from trainfeed.core.whole_numbers import whole_value
from trainfeed.decorators import array_in, batch, before_fork, collate, is_batch, set_epoch
from trainfeed.errors import (
    ConfigError,
    LoaderError,
    MemoryLimitError,
    PassEndedError,
    SampleShapeError,
)
from trainfeed.readers import BlockReader, ReaderLike, RowForm, open_reader
from trainfeed.readers.ahead import iter_ahead, iter_in_process

# --- Variables of a feed list: name, shape and dtype of the columns that a training step expects

# Dtypes of the original that have another name in numpy.
_DTYPES: Final = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "size_t": "uint64"}


@dataclass(frozen=True)
class FeedVariable:
    """Name, shape and dtype of a column that a training step expects.

    Attributes:
        name: Name of the column.
        sizes: Shape of one sample, with -1 for any size; None if not declared.
        dtype: Dtype of the column; None if not declared.
    """

    name: str
    sizes: tuple[int, ...] | None = None
    dtype: np.dtype[Any] | None = None

    @classmethod
    def of(cls, given: Any) -> Self:
        """Return the variable of a name, or of an object with a ``name``.

        Args:
            given: A text; or an object with ``name`` and optionally ``dtype``, ``lod_level`` and
                ``shape``. The first size of the shape is the batch size; None and negative sizes
                stand for any size.

        Raises:
            ConfigError: The dtype does not exist in numpy, or the samples are sequences
                (``lod_level``).
        """
        name = str(getattr(given, "name", given))
        if getattr(given, "lod_level", 0):
            raise ConfigError(
                f"expected {name!r} with lod_level 0, got {given.lod_level}: sequences of several"
                " lengths have no array; pad them, and feed their lengths as a column of their own"
            )
        shape = getattr(given, "shape", None)
        sizes = None if shape is None else tuple(_size(size) for size in tuple(shape)[1:])
        return cls(name, sizes, _dtype(name, getattr(given, "dtype", None)))

    def of_samples(self, column: Any) -> Any:
        """Convert a column of samples to the shape and dtype of the variable.

        Args:
            column: An array of shape ``(batch_size, *S)``, or a list of texts.

        Returns:
            An array of shape ``(batch_size, *sizes)``. Samples with another number of axes, such
            as flat images, are reshaped. Numbers keep their values up to the precision of floats.

        Raises:
            SampleShapeError: The samples do not have the shape, or the dtype cannot hold their
                values.
        """
        return self._shaped(self._typed(column))

    def check_batch(self, column: Any) -> Any:
        """Return a column of a user's batch after checking its shape and dtype.

        Raises:
            SampleShapeError: Shape or dtype differ from those of the variable.
        """
        if self.sizes is not None and not (column.ndim and self._suits(column)):
            raise SampleShapeError(
                f"expected a batch of shape {('batch', *self.sizes)} for {self.name!r}, got"
                f" {column.shape}; make it so, or feed samples, which are reshaped"
            )
        if self.dtype is not None and column.dtype != self.dtype:
            raise SampleShapeError(
                f"expected a batch of {self.dtype} for {self.name!r}, got {column.dtype}; make it"
                " so, or feed samples, which are converted"
            )
        return column

    def _suits(self, column: NDArray[Any]) -> bool:
        sizes = self.sizes or ()
        shape = column.shape[1:]
        return len(shape) == len(sizes) and all(
            size in (-1, found) for size, found in zip(sizes, shape, strict=True)
        )

    def _typed(self, column: Any) -> Any:
        if self.dtype is None or getattr(column, "dtype", None) == self.dtype:
            return column
        try:
            # Casting NaN to an integer warns; the comparison below raises an error for it.
            with np.errstate(invalid="ignore"):
                typed = np.asarray(column).astype(self.dtype)
        except (ValueError, TypeError) as error:
            raise SampleShapeError(
                f"expected {self.dtype} for {self.name!r}, got {_first(column)!r:.80}"
            ) from error
        if self.dtype.kind in "biu" and not np.array_equal(typed, column):
            raise SampleShapeError(
                f"expected values that {self.dtype} holds exactly for {self.name!r}, got"
                f" {np.asarray(column)[typed != column].flat[0]!r}; round them, or declare"
                " another type"
            )
        return typed

    def _shaped(self, column: Any) -> Any:
        if self.sizes is None or self._suits(np.asarray(column)):
            return column
        # Only another number of axes is reshaped: samples of equal rank and other sizes are an
        # error, not a permutation.
        if np.ndim(column) != 1 + len(self.sizes) and self.sizes.count(-1) < 2:
            try:
                return np.asarray(column).reshape(len(column), *self.sizes)
            except ValueError:
                pass
        raise SampleShapeError(
            f"expected samples of shape {self.sizes} for {self.name!r}, got {np.shape(column)[1:]}"
        )


def feed_variables(feed_list: Iterable[Any]) -> list[FeedVariable]:
    """Return the variables of a feed list; see ``FeedVariable.of``."""
    return [FeedVariable.of(given) for given in feed_list]


def fed(
    batches: Iterator[Any],
    variables: Sequence[FeedVariable],
    *,
    are_ready: bool,
) -> Iterator[list[Any]]:
    """Yield the columns of batches in the order of the variables, converted or checked by them.

    Args:
        batches: Batches as columns by position or by name.
        variables: One variable per column.
        are_ready: Whether the user made the batches: these are checked, not converted.

    Raises:
        SampleShapeError: The number or the names of the columns differ, or a column does not fit
            its variable.
    """
    with open_reader(lambda: batches):
        for columns in batches:
            pairs = zip(variables, _in_order(columns, variables), strict=True)
            yield [v.check_batch(c) if are_ready else v.of_samples(c) for v, c in pairs]


def _in_order(
    columns: Sequence[Any] | Mapping[str, Any], variables: Sequence[FeedVariable]
) -> list[Any]:
    names = [variable.name for variable in variables]
    if isinstance(columns, Mapping):
        found = [columns[name] for name in names if name in columns]
    else:
        found = list(columns)
    if len(found) != len(names):
        have = list(columns) if isinstance(columns, Mapping) else len(found)
        raise SampleShapeError(
            f"expected {len(names)} columns as in feed_list {names}, samples have {have}"
        )
    return found


def _size(size: Any) -> int:
    return -1 if size is None or int(size) < 0 else int(size)


def _dtype(name: str, dtype: Any) -> np.dtype[Any] | None:
    if dtype is None:
        return None
    # Paddle's own dtypes are written paddle.float32 and VarType.FP32.
    text = str(dtype).rpartition(".")[2].lower()
    for candidate in (dtype, _DTYPES.get(text, text)):
        try:
            return np.dtype(candidate)
        except TypeError:
            continue
    raise ConfigError(f"expected a type that numpy has for {name!r}, got {dtype}")


def _first(column: Any) -> Any:
    return column[0] if len(column) else column


# --- Passes that are started, read and reset by method calls, and the count of waiting batches

T = TypeVar("T")


class BatchQueue:
    """Counts the batches of the last started pass that wait for the consumer.

    The original's queue also accepts items; this one only counts.

    Args:
        capacity: Maximal number of waiting batches.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._counts = _Counts()

    def capacity(self) -> int:
        """Return the maximal number of waiting batches."""
        return self._capacity

    def size(self) -> int:
        """Return the number of batches that were made and not yet handed over."""
        return self._counts.num_waiting

    def begin(self) -> _Counts:
        """Start counting a new pass; the counts of earlier passes are dropped."""
        self._counts = _Counts()
        return self._counts


class _Counts:
    """Counts of one pass: batches made by a thread or a child process, and batches taken."""

    def __init__(self) -> None:
        # Anonymous shared memory: a forked child increments the number, this process reads it. One
        # writer, so no lock is needed.
        self._made = mmap.mmap(-1, 8)
        self._num_taken = 0
        self._is_over = False

    @property
    def num_waiting(self) -> int:
        return 0 if self._is_over else max(0, self._num_made - self._num_taken)

    @property
    def _num_made(self) -> int:
        return int.from_bytes(self._made[:])

    def made(self, batches: Iterator[T]) -> Iterator[T]:
        """Yield batches and count them as made; runs in the thread or process that makes them."""
        with open_reader(lambda: batches):
            for batch in batches:
                self._made[:] = (self._num_made + 1).to_bytes(8)
                yield batch

    def taken(self, batches: Iterator[T]) -> Iterator[T]:
        """Yield batches and count them as taken."""
        try:
            with open_reader(lambda: batches):
                for batch in batches:
                    self._num_taken += 1
                    yield batch
        finally:
            self._is_over = True


class StartedPass(Generic[T]):
    """The pass of a loader that is not iterable: started, read and reset by method calls.

    The executor of the original reads such a loader; here the user calls ``read_next``.
    """

    def __init__(self) -> None:
        self._groups: Iterator[T] | None = None

    def start(self, begin: Callable[[], Iterator[T]]) -> None:
        """Start a pass.

        Args:
            begin: Function that returns the iterator of the pass.

        Raises:
            LoaderError: The previous pass has not ended.
        """
        if self._groups is not None:
            raise LoaderError(
                "expected start() after the pass before has ended, got it in the middle of a"
                " pass; call reset() first"
            )
        self._groups = begin()

    def read_next(self) -> T:
        """Return the next item of the pass.

        Raises:
            LoaderError: No pass was started.
            PassEndedError: The pass is over; raised by every call until ``reset``.
        """
        if self._groups is None:
            raise LoaderError("expected a pass to read from, none was started; call start()")
        for group in self._groups:
            return group
        raise PassEndedError(
            "the pass is over, all of its batches were read; call reset(), and start() for the next"
        )

    def reset(self) -> None:
        """End the pass at any position; without a pass nothing happens."""
        groups, self._groups = self._groups, None
        close: Any = getattr(groups, "close", None)
        if close is not None:
            close()


# --- Converts items of generators to columns, and checks the places of batches

# The arrays of a batch by position, or by name if the generator yields mappings.
ColumnBatch: TypeAlias = "list[Any] | dict[str, Any]"


def num_bytes(columns: ColumnBatch) -> int:
    """Return the size of the arrays of a batch in bytes."""
    values: Iterable[Any] = columns.values() if isinstance(columns, dict) else columns
    return sum(getattr(value, "nbytes", 0) for value in values)


def collated(
    reader: ReaderLike, check: Callable[[Any], None] | None = None
) -> Iterator[ColumnBatch]:
    """Yield the columns of batches; call ``check`` with the first sample of a pass."""
    if isinstance(reader, BlockReader) and reader.batched:
        with open_reader(reader.blocks) as blocks:
            for block in blocks:
                yield block if reader.form is RowForm.MAPPING else list(block.values())
        return
    with open_reader(reader) as iterator:
        for number, items in enumerate(iterator):
            if check is not None and not number:
                check(items[0])
            yield _columns(items, number)


def as_arrays(reader: ReaderLike) -> Iterator[ColumnBatch]:
    """Yield the columns of batches that are arrays already.

    Raises:
        SampleShapeError: A column consists of lists of different lengths.
    """
    with open_reader(reader) as iterator:
        for number, item in enumerate(iterator):
            if isinstance(item, Mapping):
                yield {name: _array(value, number) for name, value in item.items()}
            else:
                columns = item if isinstance(item, tuple | list) else (item,)
                yield [_array(column, number) for column in columns]


def per_place(
    batches: Iterator[Any], num_places: int, *, names: list[str] | None, drop_last: bool
) -> Iterator[list[Any]]:
    """Yield batches in the form for static graphs: a list with one batch per place.

    Args:
        batches: Batches as columns by position or by name, or as the only column.
        num_places: Number of places.
        names: Names of the columns, to yield mappings; None to yield batches as they are.
        drop_last: Whether to omit the last batches if they are fewer than the places.

    Raises:
        ValueError: A batch has more or fewer columns than names.
    """
    with open_reader(lambda: batches):
        while group := list(itertools.islice(batches, num_places)):
            if len(group) < num_places and drop_last:
                return
            yield group if names is None else [_named(batch, names) for batch in group]


def _named(batch: Any, names: list[str]) -> dict[str, Any]:
    if isinstance(batch, Mapping):
        return {name: batch[name] for name in names}
    columns = batch if isinstance(batch, list | tuple) else [batch]
    if len(columns) != len(names):
        raise ValueError(
            f"expected {len(names)} columns as in feed_list {names}, got {len(columns)}"
        )
    return dict(zip(names, columns, strict=True))


def refuse_batch(sample: Any) -> None:
    """Raise if an item that should be a sample is a batch.

    Raises:
        LoaderError: The item is a batch.
    """
    if is_batch(sample):
        raise LoaderError(
            "expected samples, got a batch (a list of tuples); pass such a reader to"
            " set_sample_list_generator, or do not batch it"
        )


def _array(column: Any, number: int) -> NDArray[Any]:
    return array_in(column, f"batch {number}", make=np.asarray)


def _columns(items: Any, number: int) -> ColumnBatch:
    columns = collate(items, number)
    first = items[0]
    return dict(zip(first, columns, strict=True)) if isinstance(first, Mapping) else list(columns)


# --- Checks that the batches of a child process fit into the available memory

# Batches outside of the queue: one being made, and one held by the consumer.
_MORE_BATCHES: Final = 2


def fitting(read: Callable[[], Iterator[ColumnBatch]], capacity: int) -> Iterator[ColumnBatch]:
    """Yield batches; check the memory before the first batch, and before every larger batch.

    Raises:
        MemoryLimitError: See ``require_memory``.
    """
    most_bytes = -1
    with open_reader(read) as batches:
        for columns in batches:
            if num_bytes(columns) > most_bytes:
                most_bytes = num_bytes(columns)
                require_memory(capacity, most_bytes)
            yield columns


def require_memory(capacity: int, batch_bytes: int) -> None:
    """Raise unless ``capacity`` batches and the batches in use fit into memory.

    Anonymous shared memory counts as ordinary memory of the container; the size of ``/dev/shm``
    does not matter.

    Raises:
        MemoryLimitError: The batches do not fit.
    """
    need_bytes = (capacity + _MORE_BATCHES) * batch_bytes
    left_bytes = available_bytes()
    if left_bytes is not None and need_bytes > left_bytes:
        raise MemoryLimitError(
            f"{capacity} batches of {batch_bytes} bytes ahead, and {_MORE_BATCHES} in use, need"
            f" {need_bytes} bytes; {left_bytes} are left; lower capacity or the batch size, raise"
            " the memory limit, or use a thread (use_multiprocess=False) and less capacity"
        )


# --- ``from_generator``: batches of a user's generator, made by a thread or a child process

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
        self._num_places = count_cpus(places, is_fed=self._variables is not None)
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
                reseeds_parent=True,
            )
        )

    def _shaped(self, batches: Iterator[ColumnBatch]) -> Iterator[Any]:
        if self._variables is None:
            return batches
        names = None if self._return_list else [variable.name for variable in self._variables]
        return per_place(batches, self._num_places, names=names, drop_last=self._drop_last)


# --- Batches of positions for several ranks, an equal number for each


class IndexBatch(list[int]):
    """The positions of one batch in its data set.

    Attributes:
        is_padding: One flag per position: whether the position repeats a sample of this pass,
            because the samples do not divide by the ranks. An evaluation must leave these out.
    """

    def __init__(self, positions: list[int], is_padding: list[bool]) -> None:
        super().__init__(positions)
        self.is_padding = is_padding


class DistributedBatchSampler:
    """Deals batches of positions to ranks in turn; every rank gets the same number.

    The positions are padded with the first ones, repeatedly, until they divide by the ranks; then
    shuffled if ``shuffle``; then dealt in blocks of ``batch_size`` to the ranks in turn. The rest,
    too small for a block per rank, is divided evenly.

    Args:
        dataset: An object with a length, or the length.
        batch_size: Positions per batch.
        num_replicas: Number of ranks.
        rank: Number of this rank, from 0.
        shuffle: Whether every pass has a new order, equal on all ranks.
        drop_last: Whether to omit a last batch with fewer positions.

    Attributes:
        epoch: Number of the next pass.

    Raises:
        ValueError: A number is out of range.
    """

    def __init__(
        self,
        dataset: Sized | int,
        batch_size: int,
        num_replicas: int = 1,
        rank: int = 0,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        length = len(dataset) if isinstance(dataset, Sized) else whole_value("length", dataset, 0)
        batch_size = whole_value("batch_size", batch_size, 1)
        num_replicas = whole_value("num_replicas", num_replicas, 1)
        rank = whole_value("rank", rank, 0, num_replicas - 1)
        self._length: Final = length
        self._batch_size: Final = batch_size
        self._num_replicas: Final = num_replicas
        self._rank: Final = rank
        self._shuffle: Final = shuffle
        self._drop_last: Final = drop_last
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next pass; with ``shuffle`` each pass increments it.

        Raises:
            ValueError: ``epoch`` is not a whole number of 0 or more.
        """
        self.epoch = whole_value("epoch", epoch, 0)

    def __len__(self) -> int:
        """Return the number of batches per rank."""
        full, rest = divmod(self._num_mine, self._batch_size)
        return full + (rest > 0 and not self._drop_last)

    def __iter__(self) -> Iterator[IndexBatch]:
        """Start a pass over the batches of this rank."""
        mine = self._mine()
        for start in range(0, len(mine), self._batch_size):
            numbers = mine[start : start + self._batch_size]
            if len(numbers) < self._batch_size and self._drop_last:
                return
            yield IndexBatch(
                [number % self._length for number in numbers],
                [number >= self._length for number in numbers],
            )

    @property
    def _num_mine(self) -> int:
        return -(-self._length // self._num_replicas)

    def _mine(self) -> list[int]:
        """Return the numbers of this rank; numbers from the length on are padding."""
        numbers = list(range(self._num_mine * self._num_replicas))
        if self._shuffle:
            # The generator of the original, to get the same orders.
            np.random.RandomState(self.epoch).shuffle(numbers)
            self.epoch += 1
        size, ranks, rank = self._batch_size, self._num_replicas, self._rank
        # A round gives one block to every rank; the tail is shorter than a round.
        num_tail = len(numbers) % (size * ranks)
        rounds, tail = numbers[: len(numbers) - num_tail], numbers[len(numbers) - num_tail :]
        mine: list[int] = []
        for start in range(rank * size, len(rounds), size * ranks):
            mine += rounds[start : start + size]
        share = num_tail // ranks
        return mine + tail[rank * share : (rank + 1) * share]
