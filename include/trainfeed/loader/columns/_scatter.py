"""Samples of one size at arbitrary addresses, copied when a batch needs them.

A shuffled window is not copied into its new order: only the *addresses* of its samples are
permuted. A block of batches notes addresses, too. When a batch is handed over, one gather per field
copies its samples, once, from the buffers and mapped files that hold them, to arrays of its own.

The addresses are plain integers and keep nothing alive: ``Scattered.owners`` holds the buffers and
maps for as long as the columns exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.loader.columns._field_columns import (
    Column,
    ColumnTarget,
    Dense,
    DenseTarget,
    Rows,
    Values,
)
from trainfeed.loader.columns._lent_memory import ALIGNMENT_BYTES, Memory
from trainfeed.samples import FieldPlace

__all__ = ["SampleLayout", "Scattered", "addresses_in"]

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
