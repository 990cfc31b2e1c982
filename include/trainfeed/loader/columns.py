"""Columns of samples in lent memory: of one size, ragged or scattered, and batches made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.loader.memory import (
    ALIGNMENT_BYTES,
    FreshMemory,
    Memory,
)
from trainfeed.samples import FieldPlace, masked_rows

# --- The protocol of a field of many samples, and fields of one size, which are arrays

Rows: TypeAlias = slice | NDArray[np.int64]
Values: TypeAlias = NDArray[Any]


class ColumnTarget(Protocol):
    """A field of a batch that is being put together."""

    def column(self) -> Column:
        """Return the finished field."""


class Column(Protocol):
    """A field of many samples."""

    def __len__(self) -> int: ...

    def array(self, start: int, stop: int) -> Values:
        """Return the values of some samples, masked or None where the field is absent."""

    def owned(self, start: int, stop: int) -> Values:
        """Return the same values in memory that nothing else refers to."""

    def num_bytes(self, start: int, stop: int) -> int:
        """Return how many bytes the values of some samples have."""

    def put_into(self, target: ColumnTarget, where: Rows, rows: Rows) -> None:
        """Copy ``rows`` of this column to the rows ``where`` of a target.

        Raises:
            SampleShapeError: The target is for values of another type or shape.
        """

    def target(self, num_samples: int, memory: Memory) -> ColumnTarget:
        """Return a target for ``num_samples`` samples of this kind."""

    def num_target_bytes(self, num_samples: int) -> int:
        """Return how many bytes ``target`` takes from its memory."""


Columns: TypeAlias = dict[str, Column]


class Dense:
    """One value per sample, all of one shape; see ``Column``.

    Attributes:
        values: Shape ``(n, *S)``.
        absent: True for samples without the field, shape ``(n,)``; None if no sample lacks it.
    """

    __slots__ = ("absent", "values")

    def __init__(self, values: Values, absent: NDArray[np.bool_] | None = None) -> None:
        self.values = values
        self.absent = absent

    def __len__(self) -> int:
        return len(self.values)

    def array(self, start: int, stop: int) -> Values:
        """Return the values of some samples as views, masked where the field is absent."""
        values = self.values[start:stop]
        return values if self.absent is None else masked_rows(values, self.absent[start:stop])

    def owned(self, start: int, stop: int) -> Values:
        """Return copies of the values of some samples; objects are not copied."""
        values = self.array(start, stop)
        return values if values.dtype.kind == "O" else values.copy()

    def num_bytes(self, start: int, stop: int) -> int:
        """Return how many bytes the values of some samples have."""
        values = self.values[start:stop]
        return values.nbytes if values.dtype.kind != "O" else _object_bytes(values)

    def put_into(self, target: ColumnTarget, where: Rows, rows: Rows) -> None:
        """Copy ``rows`` to the rows ``where`` of a target; see ``Column``."""
        found = self.values
        if not isinstance(target, DenseTarget):
            raise SampleShapeError(
                f"{found.dtype}{found.shape[1:]} in some samples, runs in others"
            )
        expected = target.values
        if found.dtype != expected.dtype or found.shape[1:] != expected.shape[1:]:
            raise SampleShapeError(
                f"{found.dtype}{found.shape[1:]} in some samples,"
                f" {expected.dtype}{expected.shape[1:]} in others"
            )
        # One numpy call copies all rows: for large batches this is most of the work.
        expected[where] = found[rows]
        if self.absent is not None:
            target.absent[where] = self.absent[rows]

    def target(self, num_samples: int, memory: Memory) -> DenseTarget:
        """Return a target for ``num_samples`` samples of this kind."""
        shape, dtype = (num_samples, *self.values.shape[1:]), self.values.dtype
        # Memory that is used again must not hold references to objects: they would never be freed.
        has_objects = dtype.kind == "O"
        values = np.empty(shape, dtype) if has_objects else memory.array(shape, dtype)
        return DenseTarget(values, optional=self.absent is not None)

    def num_target_bytes(self, num_samples: int) -> int:
        """Return how many bytes ``target`` takes from its memory."""
        size = self.values.itemsize * math.prod(self.values.shape[1:])
        return 0 if self.values.dtype.kind == "O" else num_samples * size + ALIGNMENT_BYTES


class DenseTarget:
    """An array for one value per sample; see ``ColumnTarget``.

    Attributes:
        values: Shape ``(n, *S)``.
        absent: True for samples without the field, shape ``(n,)``; empty for a required field.
    """

    def __init__(self, values: Values, *, optional: bool) -> None:
        self.values = values
        self._optional = optional
        self.absent: NDArray[np.bool_] = np.zeros(len(values) if optional else 0, bool)

    def column(self) -> Dense:
        """Return the finished field."""
        return Dense(self.values, self.absent if self._optional else None)


def count_rows(rows: Rows, num_samples: int) -> int:
    """Return how many of ``num_samples`` samples ``rows`` choose."""
    return len(range(*rows.indices(num_samples))) if isinstance(rows, slice) else len(rows)


def _object_bytes(values: Values) -> int:
    return sum(
        value.nbytes if isinstance(value, np.ndarray) else len(value)
        for value in values.tolist()
        if value is not None
    )


# --- Fields whose size varies: the places of their bytes, and the values made from them


@dataclass(frozen=True)
class Ragged:
    """One run of bytes per sample: a value of bytes, a text, or an array of any length.

    Values are made when a batch is handed over, so the bytes are copied once.

    Attributes:
        buffers: The memory that holds the bytes.
        places: Per sample the number of the buffer, and start and end in it, shape ``(n, 3)``.
        kind: ``"bytes"``, ``"str"``, or the dtype of an array's values.
        item_shape: Shape of one value of an array.
        absent: True for samples without the field, shape ``(n,)``; None if no sample lacks it.
        is_mapped: Whether the buffers are mapped files, which take no memory.
    """

    buffers: Sequence[memoryview]
    places: NDArray[np.int64]
    kind: str
    item_shape: tuple[int, ...] = ()
    absent: NDArray[np.bool_] | None = None
    is_mapped: bool = False

    def __len__(self) -> int:
        return len(self.places)

    def __reduce__(self) -> tuple[object, ...]:
        # Views cannot be pickled: the copy has memory of its own.
        data = [bytes(buffer) for buffer in self.buffers]
        return _loaded, (data, self.places, self.kind, self.item_shape, self.absent)

    def array(self, start: int, stop: int) -> Values:
        """Return the values of some samples as objects of their own, None where absent."""
        make, buffers = _maker(self.kind, self.item_shape), self.buffers
        numbers, firsts, ends = self.places[start:stop].T.tolist()
        items = [
            make(buffers[number][first:end])
            for number, first, end in zip(numbers, firsts, ends, strict=True)
        ]
        if self.absent is not None:
            for i in np.flatnonzero(self.absent[start:stop]).tolist():
                items[i] = None
        # np.array(items, object) would stack arrays of equal lengths to one array of more
        # dimensions.
        return np.fromiter(items, object, len(items))

    def owned(self, start: int, stop: int) -> Values:
        """Return the values of some samples as objects of their own, None where absent."""
        return self.array(start, stop)

    def num_bytes(self, start: int, stop: int) -> int:
        """Return how many bytes the values of some samples have."""
        before = self._bytes_before
        return before[stop] - before[start]

    def put_into(self, target: ColumnTarget, where: Rows, rows: Rows) -> None:
        """Note the places of the values of ``rows`` in the rows ``where`` of a target."""
        if not isinstance(target, _RaggedTarget) or not target.suits(self):
            raise SampleShapeError(
                f"runs of {self.kind} in some samples, values of another kind in others"
            )
        target.put(self, where, rows)

    def target(self, num_samples: int, _memory: Memory) -> ColumnTarget:
        """Return a target for the places of ``num_samples`` samples of this kind."""
        return _RaggedTarget(self, num_samples)

    def num_target_bytes(self, _num_samples: int) -> int:
        """Return 0: places have memory of their own."""
        return 0

    @cached_property
    def _bytes_before(self) -> list[int]:
        """Sum of the bytes of the samples before each sample; computed once for all batches."""
        return [0, *np.cumsum(self.sizes()).tolist()]

    def sizes(self) -> NDArray[np.int64]:
        """Return how many bytes each sample has, shape ``(n,)``."""
        return np.asarray(self.places[:, 2] - self.places[:, 1])


def _loaded(data: list[bytes], *rest: Any) -> Ragged:
    return Ragged([memoryview(each) for each in data], *rest)


class _RaggedTarget:
    """Places of values from several columns; keeps the memory of these columns alive."""

    def __init__(self, like: Ragged, num_samples: int) -> None:
        self._like = like
        self._places: NDArray[np.int64] = np.zeros((num_samples, 3), np.int64)
        self._absent = None if like.absent is None else np.zeros(num_samples, bool)
        self._buffers: list[memoryview] = []
        # For each column, by id, the number in this list of its first buffer. _met keeps the
        # columns alive, so that an id is not used again.
        self._bases: dict[int, int] = {}
        self._met: list[Ragged] = []
        self._is_mapped = True

    def suits(self, column: Ragged) -> bool:
        like = self._like
        return column.kind == like.kind and column.item_shape == like.item_shape

    def put(self, column: Ragged, where: Rows, rows: Rows) -> None:
        base = self._bases.get(id(column))
        if base is None:
            base = self._bases[id(column)] = len(self._buffers)
            self._met.append(column)
            self._buffers += column.buffers
            self._is_mapped = self._is_mapped and column.is_mapped
        self._places[where] = column.places[rows]
        # Buffer numbers of a column start at 0; in the target they follow those of the columns
        # before.
        self._places[where, 0] += base
        if self._absent is not None and column.absent is not None:
            self._absent[where] = column.absent[rows]

    def column(self) -> Ragged:
        """Return the finished field."""
        like = self._like
        return Ragged(
            self._buffers,
            self._places,
            like.kind,
            like.item_shape,
            self._absent,
            self._is_mapped,
        )


def _maker(kind: str, item_shape: tuple[int, ...]) -> Callable[[memoryview], Any]:
    """Return the function that makes a value of a ragged column from its bytes."""
    if kind == "bytes":
        return memoryview.tobytes
    if kind == "str":
        return _text
    dtype = np.dtype(kind)
    # A bytearray, because arrays over bytes are read-only.
    return lambda data: np.frombuffer(bytearray(data), dtype).reshape(-1, *item_shape)


def _text(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"a field of text holds no UTF-8: {error}") from error


# --- Samples of one size at arbitrary addresses, copied when a batch needs them

_PIECE_BYTES: Final = 128 << 10
# Fields of this size in a block are copied batch by batch, to numpy's own new arrays, whose memory
# comes back from the allocator without page faults. Larger ones, which only batches of large
# samples have, are copied at once into lent memory.
_MAX_NEW_BYTES: Final = 8 << 20


class SampleLayout(NamedTuple):
    """The offsets of the fields in a sample of fixed size.

    Attributes:
        num_bytes: Size of a sample.
        fields: The fields, in order.
        presence: Offset and number of the bytes with the presence bits.
    """

    num_bytes: int
    fields: tuple[FieldPlace, ...]
    presence: tuple[int, int]


class _Range:
    """A range of addresses of this process that ``np.asarray`` views as read-only bytes.

    The range spans everything between the lowest and the highest sample, also memory that is not
    mapped. Only the bytes of samples may be read.
    """

    __slots__ = ("__array_interface__",)

    def __init__(self, start: int, num_bytes: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (num_bytes,),
            "data": (start, True),
        }


class _Picker:
    """Copies the same bytes of samples that lie at arbitrary addresses.

    Args:
        addresses: Addresses of the samples' first bytes, shape ``(n,)``.
        num_bytes: Size of a sample.

    Raises:
        ValueError: An address is 0, which means that it was never set.
    """

    def __init__(self, addresses: NDArray[np.int64], num_bytes: int) -> None:
        low, high = (int(addresses.min()), int(addresses.max())) if len(addresses) else (1, 1)
        if low <= 0:
            raise ValueError("a sample has no address")
        # One array from the lowest sample to the end of the highest one; the samples are offsets
        # in it.
        self._memory = np.asarray(_Range(low, high - low + num_bytes))
        self._starts = addresses - low
        self._num_starts = high - low + 1

    @property
    def num_samples(self) -> int:
        """Return the number of addresses."""
        return len(self._starts)

    def new(self, items: NDArray[np.void], rows: Rows) -> NDArray[np.void]:
        """Return the items of some samples as a new array."""
        return items[self._starts[rows]]

    def items(self, offset_bytes: int, size: int) -> NDArray[np.void]:
        """Return a view with one item of ``size`` bytes per address.

        Its strides are of 1 byte: items overlap, and item k holds the bytes at ``offset_bytes`` of
        a sample that starts at ``low + k``. Indexing it with the starts touches the chosen items
        only.
        """
        return np.ndarray((self._num_starts,), f"V{size}", self._memory, offset_bytes, (1,))


def addresses_in(framing: NDArray[np.uint8], stride_bytes: int) -> NDArray[np.int64]:
    """Return the addresses of samples that follow each other in memory, shape ``(n,)``."""
    start = framing.__array_interface__["data"][0]
    return np.arange(start, start + framing.nbytes, stride_bytes, dtype=np.int64)


@dataclass(eq=False)
class _Samples:
    """Samples at arbitrary addresses, shared by their fields; attributes as in ``Scattered``."""

    layout: SampleLayout
    addresses: NDArray[np.int64]
    owners: Sequence[object]

    @cached_property
    def picker(self) -> _Picker:
        """Copies samples; made when the first are needed, which a window may never be."""
        return _Picker(self.addresses, self.layout.num_bytes)


class Scattered(dict[str, Column]):
    """Columns of samples at arbitrary addresses.

    Args:
        layout: The offsets of the fields.
        addresses: Address of each sample in this process, in order, shape ``(n,)``.
        owners: The objects that own the memory; kept alive as long as these columns.

    Attributes:
        layout: As above.
        addresses: As above.
        owners: As above.
    """

    def __init__(
        self, layout: SampleLayout, addresses: NDArray[np.int64], owners: Sequence[object]
    ) -> None:
        # The fields refer to the samples and not to this dictionary: a cycle would keep the memory
        # until the garbage collector finds it.
        self._samples = _Samples(layout, addresses, owners)
        super().__init__({field.name: _Picked(self._samples, field) for field in layout.fields})
        self.layout = layout
        self.addresses = addresses
        self.owners = owners

    def in_memory(self, memory: Memory) -> dict[str, Column]:
        """Return these columns; with copies in ``memory`` of those too large for new arrays.

        Raises:
            ValueError: A sample has no address.
        """
        num_samples = self._samples.picker.num_samples
        large = [f for f in self.layout.fields if f.num_bytes * num_samples > _MAX_NEW_BYTES]
        if not large:
            return self
        memory.reserve(sum(f.num_bytes * num_samples + ALIGNMENT_BYTES for f in large))
        return self | {field.name: self._copied(field, memory) for field in large}

    def _copied(self, field: FieldPlace, memory: Memory) -> Dense:
        column, num_samples = _Picked(self._samples, field), len(self.addresses)
        target = column.target(num_samples, memory)
        # numpy gathers into a temporary array; pieces of this size are still in the cache when
        # they are copied to the target.
        piece = max(64, _PIECE_BYTES // field.num_bytes)
        for start in range(0, num_samples, piece):
            rows = slice(start, min(start + piece, num_samples))
            column.put_into(target, rows, rows)
        return target.column()


class _Picked:
    """A field of samples at arbitrary addresses; see ``Column``."""

    def __init__(self, samples: _Samples, field: FieldPlace) -> None:
        self._samples = samples
        self._field = field

    def __len__(self) -> int:
        return len(self._samples.addresses)

    def array(self, start: int, stop: int) -> Values:
        """Return the values of some samples as arrays of their own."""
        return self._pick(slice(start, stop)).array(0, stop - start)

    def owned(self, start: int, stop: int) -> Values:
        """Return the values of some samples as arrays of their own."""
        return self.array(start, stop)

    def num_bytes(self, start: int, stop: int) -> int:
        """Return how many bytes the values of some samples have."""
        return (stop - start) * self._field.num_bytes

    def put_into(self, target: ColumnTarget, where: Rows, rows: Rows) -> None:
        """Copy ``rows`` to the rows ``where`` of a target; see ``Column``."""
        self._pick(rows).put_into(target, where, slice(None))

    def target(self, num_samples: int, memory: Memory) -> DenseTarget:
        """Return a target for ``num_samples`` samples of this kind."""
        return self._pick(slice(0, 0)).target(num_samples, memory)

    def num_target_bytes(self, num_samples: int) -> int:
        """Return how many bytes ``target`` takes from its memory."""
        return self._pick(slice(0, 0)).num_target_bytes(num_samples)

    def _pick(self, rows: Rows) -> Dense:
        field = self._field
        picked = self._samples.picker.new(self._items, rows)
        values = picked.view(field.dtype).reshape(len(picked), *field.item_shape)
        return Dense(values, None if field.bit is None else self._absent(field.bit, rows))

    def _absent(self, bit: int, rows: Rows) -> NDArray[np.bool_]:
        size = self._presence.itemsize
        bits = self._samples.picker.new(self._presence, rows).view(np.uint8).reshape(-1, size)
        # Bit k is bit k % 8, counted from the lowest, of byte k // 8; 0 means that the field is
        # absent.
        found: NDArray[np.bool_] = bits[:, bit // 8] >> (bit % 8) & 1 == 0
        return found

    @cached_property
    def _items(self) -> NDArray[np.void]:
        return self._samples.picker.items(self._field.offset_bytes, self._field.num_bytes)

    @cached_property
    def _presence(self) -> NDArray[np.void]:
        return self._samples.picker.items(*self._samples.layout.presence)


# --- Batches that are being put together from the columns of several windows


class Targets(Protocol):
    """Arrays for all fields of the samples of a batch."""

    def put(self, columns: Columns, where: Rows, rows: Rows) -> None:
        """Copy ``rows`` of columns to the rows ``where``; the caller may then drop the columns.

        Raises:
            SampleShapeError: These columns differ from the first ones in fields, types or shapes.
        """

    def columns(self, num_samples: int) -> Columns:
        """Return the finished fields of the first ``num_samples`` samples."""


class _FieldTargets:
    """One target per field; see ``Targets``."""

    def __init__(self, targets: dict[str, ColumnTarget]) -> None:
        self._targets = targets

    def put(self, columns: Columns, where: Rows, rows: Rows) -> None:
        """Copy ``rows`` of columns to the rows ``where``; see ``Targets``."""
        if columns.keys() != self._targets.keys():
            raise SampleShapeError(
                f"some samples have the fields {list(columns)}, others {list(self._targets)}"
            )
        for name, column in columns.items():
            try:
                column.put_into(self._targets[name], where, rows)
            except SampleShapeError as error:
                raise SampleShapeError(f"field {name!r} is {error}") from None

    def columns(self, _num_samples: int) -> Columns:
        """Return the finished fields."""
        return {name: target.column() for name, target in self._targets.items()}


class _ScatteredTargets:
    """The addresses of samples, which are all copied by ``columns``; see ``Targets``.

    Args:
        layout: The layout of the samples.
        num_samples: Number of samples.
        memory: Memory for the copies.
    """

    def __init__(self, layout: SampleLayout, num_samples: int, memory: Memory) -> None:
        self._layout = layout
        self._memory = memory
        self._addresses: NDArray[np.int64] = np.zeros(num_samples, np.int64)
        self._owners: dict[int, Sequence[object]] = {}

    def put(self, columns: Columns, where: Rows, rows: Rows) -> None:
        """Note the addresses of ``rows`` of columns; see ``Targets``."""
        if not isinstance(columns, Scattered) or columns.layout is not self._layout:
            raise SampleShapeError("some samples are of another layout than others")
        self._addresses[where] = columns.addresses[rows]
        # The caller may drop its columns; the memory behind the addresses must stay.
        self._owners[id(columns.owners)] = columns.owners

    def columns(self, num_samples: int) -> Columns:
        """Return the first samples, whose addresses must all be set."""
        owners = list(self._owners.values())
        found = Scattered(self._layout, self._addresses[:num_samples], owners)
        return found.in_memory(self._memory)


def targets_for(columns: Columns, num_samples: int, memory: Memory) -> Targets:
    """Return targets for ``num_samples`` samples like those of columns.

    Args:
        columns: Samples whose fields, types and shapes the targets get.
        num_samples: Number of samples.
        memory: Memory for the arrays of the targets.
    """
    if isinstance(columns, Scattered):
        return _ScatteredTargets(columns.layout, num_samples, memory)
    return array_targets(columns, num_samples, memory)


def array_targets(columns: Columns, num_samples: int, memory: Memory) -> Targets:
    """Return targets that copy at once, which samples of any layouts fit; see ``targets_for``."""
    memory.reserve(sum(column.num_target_bytes(num_samples) for column in columns.values()))
    return _FieldTargets(
        {name: column.target(num_samples, memory) for name, column in columns.items()}
    )


def joined(pieces: Sequence[tuple[Columns, Rows, int]]) -> Columns:
    """Return the samples of several columns as one set of columns.

    Args:
        pieces: Tuples of columns, the rows to take, and the number of these rows.
    """
    total = sum(count for _, _, count in pieces)
    # Targets of addresses accept scattered columns only; targets of arrays accept both kinds. So
    # the first column that is not scattered decides.
    like = next((own for own, _, _ in pieces if not isinstance(own, Scattered)), pieces[0][0])
    targets, end = targets_for(like, total, FreshMemory()), 0
    for columns, rows, count in pieces:
        targets.put(columns, slice(end, end + count), rows)
        end += count
    return targets.columns(total)
