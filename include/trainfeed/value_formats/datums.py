"""Many datums in one buffer, each read from its own beginning to its own end, column by column.

A ``Cursor`` has a position in every datum. Reading a value moves all positions at once, in numpy,
and no position ever passes the end of its datum: a datum that is damaged is marked, and its
neighbours do not notice. There is no place at which the end of one datum decides where the next one
begins, so nothing can shift values between records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Positions = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Bytes behind the data that may be looked at, as words of 8 bytes are read at any position.
_PADDING: Final = 16
_CONTINUED: Final = np.uint64(0x8080808080808080)
_ONE: Final = np.uint64(1)
# A varint of 64 bits has at most 10 bytes; the tenth holds one bit.
_WORD: Final = 8


@dataclass
class Datums:
    """The bytes that all cursors of a batch read from.

    Attributes:
        data: The bytes and their padding, uint8.
        messages: Why datums are refused; ``Cursor.why`` has the numbers, from 1.
        depth: How many records that hold themselves are open.
    """

    data: NDArray[np.uint8]
    messages: list[str] = field(default_factory=lambda: [""])
    depth: int = 0

    @classmethod
    def of(cls, data: Any) -> Datums:
        """Copy bytes, with the padding that reading needs."""
        source = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        padded = np.zeros(len(source) + _PADDING, np.uint8)
        padded[: len(source)] = source
        return cls(padded)

    def words(self, kind: str) -> NDArray[Any]:
        """Return the values of a numpy dtype of up to 8 bytes that begin at every position."""
        size = len(self.data) - _PADDING
        return np.ndarray((size + 1,), kind, self.data, strides=(1,))

    @cached_property
    def longs(self) -> NDArray[np.uint64]:
        """The little-endian words of 8 bytes that begin at every position."""
        return self.words("<u8")

    @cached_property
    def stops(self) -> Positions:
        """The positions of all bytes that can be the last one of a varint, ascending."""
        return np.flatnonzero(self.data[: len(self.data) - _PADDING] < 128)

    @cached_property
    def buffer(self) -> pa.Buffer:
        """The same bytes for Arrow, without a copy."""
        return pa.py_buffer(self.data)


class Cursor:
    """A position in each of n datums, in ascending order of their places.

    Args:
        datums: The bytes.
        pos: Positions, int64 of shape (n,).
        end: Ends of the datums, likewise.
        why: Number of the message for each refused datum, 0 for the others, uint16.

    Attributes:
        datums, pos, end, why: As given; the positions are never behind the ends.
    """

    __slots__ = ("datums", "end", "pos", "why")

    def __init__(
        self, datums: Datums, pos: Positions, end: Positions, why: NDArray[np.uint16] | None = None
    ) -> None:
        self.datums = datums
        self.pos = pos
        self.end = end
        self.why = np.zeros(len(pos), np.uint16) if why is None else why

    def __len__(self) -> int:
        return len(self.pos)

    def at(self, rows: Positions) -> Cursor:
        """Return a cursor of some of the datums; ``put`` takes its positions back."""
        return Cursor(self.datums, self.pos[rows], self.end[rows], self.why[rows])

    def put(self, rows: Positions, part: Cursor) -> None:
        """Take over the positions and refusals of a cursor of some of the datums."""
        self.pos[rows] = part.pos
        self.why[rows] = part.why

    def refuse(self, mask: Mask, message: str) -> None:
        """Refuse datums, for good; the first message of a datum stays."""
        if not mask.any():
            return
        self.why[mask & (self.why == 0)] = self._number(message)
        # A refused datum is at its end: what is still read of it stays within it.
        self.pos = np.where(mask, self.end, self.pos)

    def _number(self, message: str) -> int:
        messages = self.datums.messages
        if message not in messages:
            messages.append(message)
        return messages.index(message)

    def refuse_rest(self) -> None:
        """Refuse datums that have bytes behind their last value."""
        self.refuse(self.end > self.pos, "bytes are left behind the last value")

    def skip(self, count: int, path: str) -> None:
        """Move every position by ``count`` bytes."""
        self.refuse(self.end - self.pos < count, f"{path}: the bytes end within a value")
        self.pos = np.minimum(self.pos + count, self.end)

    def bytes_at(self) -> NDArray[np.uint8]:
        """Return the byte at each position; behind the end, one of another datum or 0."""
        return self.datums.data[self.pos]

    def varints(self, path: str) -> Positions:
        """Read a varint of up to 64 bits from each datum, zigzag decoded; 0 where it is refused."""
        values = self.unsigned_varints(path)
        found: Positions = ((values >> _ONE) ^ (~(values & _ONE) + _ONE)).view(np.int64)
        return found

    def unsigned_varints(self, path: str) -> NDArray[np.uint64]:
        """Read a varint of up to 64 bits from each datum, as it is; 0 where it is refused."""
        first = self.bytes_at()
        if not len(first) or int(first.max()) < 128:
            after = self.pos + 1
            values = first.astype(np.uint64)
        else:
            values, length = self._long_varints(path)
            after = self.pos + length
        short = after > self.end
        self.pos = np.minimum(after, self.end)
        if short.any():
            self.refuse(short, f"{path}: the bytes end within a value")
            values = np.where(short, np.uint64(0), values)
        return values

    def _long_varints(self, path: str) -> tuple[NDArray[np.uint64], Positions]:
        """Return the unsigned values and their lengths in bytes."""
        words = self.datums.longs[self.pos]
        last = ~words & _CONTINUED
        last &= ~last + _ONE  # the lowest bit: in the last byte of the varint
        # All bits up to that one; without one, 0 - 1 gives all 64.
        below = last - _ONE
        length = ((np.bitwise_count(below).astype(np.int64)) + 1) >> 3
        values = words & (below | last) & ~_CONTINUED
        for shift, low, high in _GROUPS:
            values = (values & low) | ((values & high) >> shift)
        longer = np.flatnonzero(last == 0)
        if len(longer):
            self._finish_varints(longer, values, length, path)
        return values, length

    def _finish_varints(
        self, rows: Positions, values: NDArray[np.uint64], length: Positions, path: str
    ) -> None:
        """Read the ninth and tenth byte of long varints into ``values`` and ``length``."""
        ninth = self.datums.data[self.pos[rows] + _WORD].astype(np.uint64)
        goes_on = ninth >= 128
        tenth = np.where(goes_on, self.datums.data[self.pos[rows] + _WORD + 1], 0)
        values[rows] |= (ninth & np.uint64(127)) << np.uint64(56)
        values[rows] |= tenth.astype(np.uint64) << np.uint64(63)
        length[rows] = _WORD + 1 + goes_on
        too_long = np.zeros(len(self), np.bool_)
        # Only where the ten bytes are of the datum: else it ends within the value.
        too_long[rows] = (tenth > 1) & (self.end[rows] - self.pos[rows] >= _WORD + 2)
        self.refuse(too_long, f"{path}: expected a varint of 64 bits, got a longer one")

    def slices(self, path: str, *, zigzag: bool = True) -> tuple[Positions, Positions]:
        """Read a length and as many bytes from each datum; return where they begin and end."""
        varints = self.varints if zigzag else self.unsigned_varints
        length = varints(path).view(np.int64)
        room = self.end - self.pos
        self.refuse((length < 0) | (length > room), f"{path}: a length is beyond the bytes")
        start = self.pos
        self.pos = start + np.where(self.why == 0, length, 0)
        return start, self.pos


_GROUPS: Final = tuple(
    (np.uint64(shift), np.uint64(low), np.uint64(high))
    for shift, low, high in (
        (1, 0x007F007F007F007F, 0x7F007F007F007F00),
        (2, 0x00003FFF00003FFF, 0x3FFF00003FFF0000),
        (4, 0x000000000FFFFFFF, 0x0FFFFFFF00000000),
    )
)


# In the place of a size: each item is one varint.
VARINT: Final = 0


def item_cursor(cursor: Cursor, counts: Positions, size: int, path: str) -> Cursor:
    """Return a cursor of items that stand one after another, many in each datum; skip them.

    Args:
        cursor: The datums, each at its first item.
        counts: Number of items of each.
        size: Bytes of an item, or ``VARINT``.
        path: For messages.

    Returns:
        A cursor of the items of all datums, datum by datum; those of refused datums are left out.
    """
    room = cursor.end - cursor.pos
    stops = cursor.datums.stops if size == VARINT else counts[:0]
    first = np.searchsorted(stops, cursor.pos)
    if size == VARINT:
        # Behind the last item: one stop more than there are items before it.
        last = np.minimum(first + counts - 1, len(stops) - 1)
        taken = np.where(counts > 0, stops[last] + 1 - cursor.pos, 0) if len(stops) else counts
        short = (taken > room) | (first + counts > len(stops))
    else:
        taken = counts * size
        short = counts > room // size
    cursor.refuse(short, f"{path}: the bytes end within a value")
    good = np.where(cursor.why == 0, counts, 0)
    within = np.arange(good.sum()) - np.repeat(np.cumsum(good) - good, good)
    starts = np.repeat(cursor.pos, good)
    if size == VARINT:
        before = np.repeat(first, good) + within - 1
        starts = np.where(within > 0, stops[before] + 1, starts)
    else:
        starts = starts + within * size
    items = Cursor(cursor.datums, starts, np.repeat(cursor.end, good))
    cursor.pos = np.where(cursor.why == 0, cursor.pos + taken, cursor.end)
    return items


def refuse_owners(cursor: Cursor, counts: Positions, items: Cursor) -> None:
    """Refuse the datums of refused items, of the cursor that ``item_cursor`` returned."""
    wrong = np.flatnonzero(items.why)
    if len(wrong):
        owners, firsts = np.unique(np.repeat(np.arange(len(cursor)), counts)[wrong], True)
        cursor.why[owners] = items.why[wrong[firsts]]
        cursor.pos[owners] = cursor.end[owners]


def binary_column(cursor: Cursor, start: Positions, end: Positions) -> pa.Array:
    """Return the bytes of the slices as a binary array, copied in C."""
    count = len(start)
    # All slices and the gaps between them, as items of one array over the whole buffer; every
    # second one is taken. Positions ascend from datum to datum.
    ends = np.empty(2 * count + 1, np.int32)
    ends[0 : 2 * count : 2], ends[1 : 2 * count : 2] = start, end
    ends[2 * count] = end[-1] if count else 0
    whole = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(ends), cursor.datums.buffer]
    )
    return whole.take(pa.array(np.arange(0, 2 * count, 2)))


def text_column(cursor: Cursor, start: Positions, end: Positions, path: str) -> pa.Array:
    """Return the same as text; datums whose slice is no UTF-8 are refused, and get a null."""
    column = binary_column(cursor, start, end)
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        pass
    texts = [_text(each) for each in column.to_pylist()]
    wrong = np.fromiter((text is None for text in texts), np.bool_, len(texts))
    cursor.refuse(wrong, f"{path}: expected UTF-8")
    return pa.array(texts, pa.string())


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def spread(
    parts: Sequence[tuple[Positions | None, pa.Array]], count: int, arrow: pa.DataType
) -> pa.Array:
    """Return one column from columns of some rows each; rows that no part has are null.

    Args:
        parts: Ascending rows and their values; None, in a part that is the only one, for all rows.
        count: Number of rows.
        arrow: Type of the column.
    """
    if not parts:
        return pa.nulls(count, arrow)
    if parts[0][0] is None:
        return parts[0][1]
    order = np.full(count, -1, np.int64)
    first = 0
    for rows, column in parts:
        order[rows] = np.arange(first, first + len(column))
        first += len(column)
    columns = [column for _, column in parts]
    values = columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
    return values.take(pa.array(order, mask=order < 0))


def by_owner(
    pieces: list[pa.Array], owners: list[Positions], count: int
) -> tuple[pa.Array | None, NDArray[np.int32]]:
    """Return the items of all datums, datum by datum, and where those of each begin and end.

    Args:
        pieces: Items, in their order within a datum.
        owners: The datum of each of them.
        count: Number of datums.
    """
    ends = np.zeros(count + 1, np.int32)
    if not pieces:
        return None, ends
    owner = np.concatenate(owners)
    ends[1:] = np.cumsum(np.bincount(owner, minlength=count))
    order = np.argsort(owner, kind="stable")
    return pa.concat_arrays(pieces).take(pa.array(order)), ends
