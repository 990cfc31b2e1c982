"""Samples of one size at arbitrary addresses, copied when a batch needs them.

A shuffled window is not copied into its new order: only the *addresses* of its samples are
permuted. When a block of batches is assembled, one gather per field copies the samples, once, from
the buffers and mapped files that hold them.

The addresses are plain integers and keep nothing alive: ``Scattered.owners`` holds the buffers and
maps for as long as the columns exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

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
# Memory of this size comes back from the allocator without page faults, so numpy's own array is the
# result. A larger one is copied into lent memory.
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

    def pick(self, addresses: NDArray[np.int64], memory: Memory) -> dict[str, Dense]:
        """Return the samples at addresses.

        The caller holds the memory that the samples are in.

        Args:
            addresses: Addresses of the first bytes of the samples in this process, shape ``(n,)``.
            memory: Memory for the fields that are too large for new arrays.
        """
        picker = _Picker(addresses, self.num_bytes)
        large = [f for f in self.fields if f.num_bytes * len(addresses) > _MAX_NEW_BYTES]
        if large:
            sizes = [field.num_bytes * len(addresses) + ALIGNMENT_BYTES for field in large]
            memory.reserve(sum(sizes))
        return {
            field.name: self._field(field, picker, memory if field in large else None)
            for field in self.fields
        }

    def pick_field(self, field: FieldPlace, addresses: NDArray[np.int64]) -> Dense:
        """Return one field of the samples at addresses, in memory of its own; see ``pick``."""
        return self._field(field, _Picker(addresses, self.num_bytes), None)

    def _field(self, field: FieldPlace, picker: _Picker, memory: Memory | None) -> Dense:
        shape = (picker.num_samples, *field.item_shape)
        if memory is None:
            picked = picker.new(field.offset_bytes, field.num_bytes)
            values = picked.view(field.dtype).reshape(shape)
        else:
            values = memory.array(shape, field.dtype)
            picker.pick(field.offset_bytes, values)
        if field.bit is None:
            return Dense(values)
        offset, size = self.presence
        bits = picker.new(offset, size).view(np.uint8).reshape(-1, size)
        # Bit k is bit k % 8, counted from the lowest, of byte k // 8; 0 means that the field is
        # absent.
        return Dense(values, bits[:, field.bit // 8] >> (field.bit % 8) & 1 == 0)


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

    def new(self, offset_bytes: int, size: int) -> NDArray[np.void]:
        """Return the ``size`` bytes at ``offset_bytes`` of every sample as a new array of items."""
        return self._items(offset_bytes, size)[self._starts]

    def pick(self, offset_bytes: int, out: NDArray[Any]) -> None:
        """Copy the bytes at ``offset_bytes`` of every sample to the rows of ``out``, contiguous."""
        starts = self._starts
        if not len(starts):
            return
        size = out.nbytes // len(starts)
        items = self._items(offset_bytes, size)
        rows = out.reshape(-1).view(f"V{size}")
        # numpy gathers into a temporary array; pieces of this size are still in the cache when
        # they are copied to ``out``.
        piece = max(64, _PIECE_BYTES // size)
        for start in range(0, len(starts), piece):
            rows[start : start + piece] = items[starts[start : start + piece]]

    def _items(self, offset_bytes: int, size: int) -> NDArray[np.void]:
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
        super().__init__(
            {field.name: _Picked(layout, field, addresses, owners) for field in layout.fields}
        )
        self.layout = layout
        self.addresses = addresses
        self.owners = owners


class _Picked:
    """A field of samples at arbitrary addresses; see ``Column``."""

    def __init__(
        self,
        layout: SampleLayout,
        field: FieldPlace,
        addresses: NDArray[np.int64],
        owners: Sequence[object],
    ) -> None:
        self._layout = layout
        self._field = field
        self._addresses = addresses
        self._owners = owners

    def __len__(self) -> int:
        return len(self._addresses)

    def array(self, start: int, stop: int) -> Values:
        """Return the values of some samples as arrays of their own."""
        return self._pick(slice(start, stop)).array(0, stop - start)

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
        return self._layout.pick_field(self._field, self._addresses[rows])
