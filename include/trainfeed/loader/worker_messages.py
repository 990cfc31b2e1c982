"""Messages between a loader and its worker processes, and windows in the memory they share."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from threading import Event
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from trainfeed.loader.columns import Column, Columns, Dense, Ragged
from trainfeed.loader.memory import FreshMemory, carve
from trainfeed.loader.order import Order, Task
from trainfeed.loader.windows import Source

# --- The messages between a loader and its worker processes

# Set in a worker process while it imports the main program for a class that is defined there.
IMPORTING_MAIN: Final = Event()


@dataclass(frozen=True)
class LoaderJob:
    """The first message to a worker: the sets, and the layout of the shared memory.

    Attributes:
        sets: The sets, each with its order.
        slot_bytes: Size of a slot.
        num_slots: Number of slots in the shared memory.
    """

    sets: Sequence[tuple[Source, Order]]
    slot_bytes: int
    num_slots: int


class Question(NamedTuple):
    """A window to load.

    Attributes:
        number: Number of the question, from 0.
        slot: Number of the slot for the window.
        task: The window.
    """

    number: int
    slot: int
    task: Task


class PackedArray(NamedTuple):
    """An array in a slot."""

    offset_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]


class PackedColumn(NamedTuple):
    """A column in a slot.

    Attributes:
        values: The values; for a ragged column the bytes of all samples, in order.
        ends: For a ragged column the end of each sample in ``values``, shape ``(n,)``; otherwise
            None.
        absent: True for samples without the field; None if no sample lacks it.
        is_pickled: Whether ``values`` are the bytes of pickled objects.
        kind: For a ragged column see ``Ragged``; otherwise "".
        item_shape: See ``Ragged``.
    """

    values: PackedArray
    ends: PackedArray | None = None
    absent: PackedArray | None = None
    is_pickled: bool = False
    kind: str = ""
    item_shape: tuple[int, ...] = ()


class Answer(NamedTuple):
    """A window that was loaded.

    Attributes:
        number: Number of the question; -1 for an error of the worker itself.
        packed: Places of the columns in the slot; None when they did not fit.
        columns: The columns themselves when they did not fit; otherwise None.
        num_samples: Number of samples.
        error: The reason why later samples were not loaded; None if all were.
        seconds: Seconds that loading took.
        num_reread: Number of repetitions of reads while the window was loaded.
    """

    number: int
    packed: dict[str, PackedColumn] | None
    columns: Columns | None
    num_samples: int
    error: BaseException | None
    seconds: float
    num_reread: int


def dump(value: Any) -> bytes:
    """Return a value as bytes for the other process; raises whatever pickling it raises."""
    return bytes(ForkingPickler.dumps(value))


def load(data: bytes | memoryview) -> Any:
    """Return the value that ``dump`` turned into bytes."""
    return ForkingPickler.loads(data)


# --- Windows in shared memory: a worker lays them out, and the loader finds them


class SharedSlots:
    """The shared memory, mapped into one process.

    Args:
        fd: Descriptor of the memory.
        slot_bytes: Size of a slot.
        num_slots: Number of slots.
    """

    def __init__(self, fd: int, slot_bytes: int, num_slots: int) -> None:
        self._bytes = np.frombuffer(mmap.mmap(fd, slot_bytes * num_slots), np.uint8)
        self._slot_bytes = slot_bytes

    @staticmethod
    def create(slot_bytes: int, num_slots: int) -> int:
        """Return a descriptor of new memory, for ``__init__`` and for workers."""
        # A memory file has no name: it is freed with the last process that maps it, also after
        # SIGKILL.
        fd = os.memfd_create("trainfeed-loader", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, slot_bytes * num_slots)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def slot(self, number: int) -> NDArray[np.uint8]:
        """Return a slot, shape ``(slot_bytes,)``."""
        start = number * self._slot_bytes
        return self._bytes[start : start + self._slot_bytes]


class SlotMemory:
    """A slot as the memory for one window.

    The arrays of a window that is too large get private memory instead.

    Attributes:
        fits: Whether all arrays so far are in the slot.
        is_lazy: See ``Memory``.
    """

    def __init__(self, slot: NDArray[np.uint8]) -> None:
        self._slot = slot
        self._used = 0
        self.fits = True
        # Addresses are valid in one process only, so a window in a slot must contain the values.
        self.is_lazy = False
        self._start = slot.__array_interface__["data"][0]

    def reserve(self, num_bytes: int) -> None:
        """Note whether ``num_bytes`` fit into the slot; called once, before ``array``."""
        self.fits = num_bytes <= self._slot.nbytes

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array, not initialised, that starts at a multiple of 64 bytes."""
        if not self.fits:
            return np.empty(shape, dtype)
        try:
            array, self._used = carve(self._slot, self._used, shape, np.dtype(dtype))
        # ``reserve`` got an estimate: rounding to 64 bytes may need more. Then the window is sent
        # through a pipe instead.
        except ValueError:
            self.fits = False
            return np.empty(shape, dtype)
        return array

    def packed(self, array: NDArray[Any]) -> PackedArray:
        """Return the place of an array in the slot; copies an array that is elsewhere."""
        # The distance of two addresses: an array that ``array`` returned lies within the slot.
        offset = array.__array_interface__["data"][0] - self._start
        if not 0 <= offset < self._slot.nbytes:
            # An array elsewhere, as views of a mapped file are, is copied into the slot.
            own = self.array(array.shape, array.dtype)
            if self.fits:
                own[...] = array
            array, offset = own, own.__array_interface__["data"][0] - self._start
        return PackedArray(offset, array.shape, array.strides, array.dtype)


def pack(columns: Columns, memory: SlotMemory) -> dict[str, PackedColumn] | None:
    """Put columns into a slot, if they are not there already; None when they do not fit."""
    packed = {}
    for name, column in columns.items():
        if memory.fits:
            packed[name] = _pack(column, memory)
    return packed if memory.fits else None


def unpack(packed: dict[str, PackedColumn], slot: NDArray[np.uint8]) -> Columns:
    """Return the columns in a slot, as views of it."""
    return {name: _unpack(column, slot) for name, column in packed.items()}


def _pack(column: Column, memory: SlotMemory) -> PackedColumn:
    if isinstance(column, Ragged):
        absent = None if column.absent is None else memory.packed(column.absent)
        ends = np.cumsum(column.sizes())
        values = memory.array((int(ends[-1]) if len(ends) else 0,), np.uint8)
        if memory.fits:
            _copy_runs(column, values.data)
        return PackedColumn(
            memory.packed(values),
            memory.packed(ends),
            absent,
            kind=column.kind,
            item_shape=column.item_shape,
        )
    if not isinstance(column, Dense):
        raise TypeError(f"expected values in memory, got {type(column).__name__}")
    absent = None if column.absent is None else memory.packed(column.absent)
    if column.values.dtype.kind == "O":
        # Objects have no fixed layout: they are serialised, and lie in the slot as bytes.
        data = np.frombuffer(dump(list(column.values)), np.uint8)
        return PackedColumn(memory.packed(data), absent=absent, is_pickled=True)
    return PackedColumn(memory.packed(column.values), absent=absent)


def _copy_runs(column: Ragged, out: memoryview) -> None:
    end, buffers = 0, column.buffers
    for number, first, last in column.places.tolist():
        # ``places`` has rows (buffer number, first byte, end); the runs are written without gaps.
        start, end = end, end + last - first
        out[start:end] = buffers[number][first:last]


def _unpack(column: PackedColumn, slot: NDArray[np.uint8]) -> Column:
    def array(packed: PackedArray) -> NDArray[Any]:
        # A view of the slot: offset and strides were computed in the other process, in bytes from
        # the start of the slot, and hold at any mapped address.
        return np.ndarray(
            packed.shape,
            packed.dtype,
            slot.data,
            packed.offset_bytes,
            packed.strides,
        )

    values = array(column.values)
    absent = None if column.absent is None else array(column.absent)
    if column.is_pickled:
        return Dense(_boxed(load(values.data)), absent)
    if column.ends is None:
        return Dense(values, absent)
    return _runs(values, array(column.ends), absent, (column.kind, column.item_shape))


def _boxed(values: list[Any]) -> NDArray[Any]:
    boxed = np.empty(len(values), object)
    for i, value in enumerate(values):
        # One by one: assigning a list would make one array of all values of equal length.
        boxed[i] = value
    return boxed


def owned(columns: Columns) -> Columns:
    """Return columns with memory of their own."""
    return {name: _owned(column) for name, column in columns.items()}


def _owned(column: Column) -> Column:
    if isinstance(column, Ragged):
        ends = np.cumsum(column.sizes())
        values = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        _copy_runs(column, values.data)
        absent = None if column.absent is None else column.absent.copy()
        return _runs(values, ends, absent, (column.kind, column.item_shape))
    target = column.target(len(column), FreshMemory())
    column.put_into(target, slice(None), slice(None))
    return target.column()


def _runs(
    values: NDArray[np.uint8],
    ends: NDArray[np.int64],
    absent: NDArray[np.bool_] | None,
    kind: tuple[str, tuple[int, ...]],
) -> Ragged:
    """Return a ragged column whose runs follow each other in ``values``."""
    places = np.zeros((len(ends), 3), np.int64)
    # Per row: buffer 0, start (the end of the row before), end.
    places[1:, 1], places[:, 2] = ends[:-1], ends
    return Ragged([values.data], places, *kind, absent)
