"""Fields whose size varies: the places of their bytes, and the values made from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.loader.columns._field_columns import ColumnTarget, Rows, Values
from trainfeed.loader.columns._lent_memory import Memory

__all__ = ["Ragged"]


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
