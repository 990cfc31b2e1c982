"""Samples of one size that lie anywhere in memory, and are picked when a batch wants them.

A window that is permuted, and lanes that take turns, need not be written down in their order: the
order of the *addresses* is what counts. All samples of a block are then picked by one step per
field, from whatever buffers and mapped files they are in, and copied once.
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


class SampleLayout(NamedTuple):
    """Where the fields of a sample of fixed size are.

    Attributes:
        num_bytes: Size of a sample.
        fields: The fields, in order.
        presence: Where the presence bits are: offset and bytes.
    """

    num_bytes: int
    fields: tuple[FieldPlace, ...]
    presence: tuple[int, int]

    def pick(self, addresses: NDArray[np.int64], memory: Memory) -> dict[str, Dense]:
        """Return the samples at addresses.

        The caller holds the memory that the samples are in.

        Args:
            addresses: Where samples start in this process, shape ``(n,)``.
            memory: Where to put them.
        """
        picker = _Picker(addresses, self.num_bytes)
        sizes = [field.num_bytes * len(addresses) + ALIGNMENT_BYTES for field in self.fields]
        memory.reserve(sum(sizes))
        return {
            field.name: self._field(
                field, picker, memory.array((len(addresses), *field.item_shape), field.dtype)
            )
            for field in self.fields
        }

    def pick_field(self, field: FieldPlace, addresses: NDArray[np.int64]) -> Dense:
        """Return one field of the samples at addresses in memory of its own; see ``pick``."""
        values = np.empty((len(addresses), *field.item_shape), field.dtype)
        return self._field(field, _Picker(addresses, self.num_bytes), values)

    def _field(self, field: FieldPlace, picker: _Picker, values: NDArray[Any]) -> Dense:
        picker.pick(field.offset_bytes, values)
        if field.bit is None:
            return Dense(values)
        offset, size = self.presence
        bits = np.empty((len(values), size), np.uint8)
        picker.pick(offset, bits)
        return Dense(values, bits[:, field.bit // 8] >> (field.bit % 8) & 1 == 0)


class _Range:
    """Bytes of this process, as an array may look at them."""

    __slots__ = ("__array_interface__",)

    def __init__(self, start: int, num_bytes: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (num_bytes,),
            "data": (start, True),
        }


class _Picker:
    """Picks bytes of samples that lie anywhere.

    Args:
        addresses: Where the samples start, shape ``(n,)``.
        num_bytes: Size of a sample.

    Raises:
        ValueError: There is no such address: it was never set.
    """

    def __init__(self, addresses: NDArray[np.int64], num_bytes: int) -> None:
        low, high = (int(addresses.min()), int(addresses.max())) if len(addresses) else (1, 1)
        if low <= 0:
            raise ValueError("a sample has no address")
        self._memory = np.asarray(_Range(low, high - low + num_bytes))
        self._starts = addresses - low
        self._num_starts = high - low + 1

    def pick(self, offset_bytes: int, out: NDArray[Any]) -> None:
        """Copy what every sample has from an offset on to the rows of ``out``, contiguous."""
        starts = self._starts
        if not len(starts):
            return
        size = out.nbytes // len(starts)
        # One item per byte at which a sample may start; they overlap.
        items: NDArray[Any] = np.ndarray(
            (self._num_starts,), f"V{size}", self._memory, offset_bytes, (1,)
        )
        rows = out.reshape(-1).view(f"V{size}")
        # numpy picks into an array of its own; pieces of this size are still in the cache when they
        # are copied to where they belong.
        piece = max(64, _PIECE_BYTES // size)
        for start in range(0, len(starts), piece):
            rows[start : start + piece] = items[starts[start : start + piece]]


def addresses_in(framing: NDArray[np.uint8], stride_bytes: int) -> NDArray[np.int64]:
    """Return the addresses of samples that lie one after another, shape ``(n,)``."""
    start = framing.__array_interface__["data"][0]
    return np.arange(start, start + framing.nbytes, stride_bytes, dtype=np.int64)


class Scattered(dict[str, Column]):
    """Columns of samples that lie anywhere.

    Args:
        layout: Where their fields are.
        addresses: Where each sample starts in this process, in their order, shape ``(n,)``.
        owners: What owns the memory, and is kept as long as these columns are.

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
    """A field of samples that lie anywhere; see ``Column``."""

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
        """Return what users get of some samples: arrays of their own."""
        return self._pick(slice(start, stop)).array(0, stop - start)

    def num_bytes(self, start: int, stop: int) -> int:
        """Return how many bytes the values of some samples have."""
        return (stop - start) * self._field.num_bytes

    def put_into(self, target: ColumnTarget, where: Rows, rows: Rows) -> None:
        """Copy ``rows`` to the places ``where`` of a target; see ``Column``."""
        self._pick(rows).put_into(target, where, slice(None))

    def target(self, num_samples: int, memory: Memory) -> DenseTarget:
        """Return room for ``num_samples`` of such samples."""
        return self._pick(slice(0, 0)).target(num_samples, memory)

    def num_target_bytes(self, num_samples: int) -> int:
        """Return what ``target`` takes of its memory."""
        return self._pick(slice(0, 0)).num_target_bytes(num_samples)

    def _pick(self, rows: Rows) -> Dense:
        return self._layout.pick_field(self._field, self._addresses[rows])
