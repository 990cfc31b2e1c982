"""Parses records of different lengths side by side: each step is done for all records at once.

Examples written by one program have the same keys in the same order, and each list in one piece.
One record is parsed as a template. Then all records are walked through together; numpy arrays hold
the current position of every record::

    record := 0a length entry*
    entry  := 0a length  0a length key  12 length  list?
    list   := tag length  ( 0a length content )?
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.tfrecord.examples._example import scan_example
from trainfeed.tfrecord.examples._features import ListKind
from trainfeed.tfrecord.examples._protobuf_wire import encode_varint

__all__ = ["Lists", "Structure"]

_FIELD_1: Final = 0x0A
_FIELD_2: Final = 0x12
# Bytes of a length as varint: lengths are below 2 GiB.
_MAX_LENGTH_BYTES: Final = 5
# Bytes appended to the last record, so that a lookup at the end of a damaged record stays in range.
_PADDING: Final = bytes(_MAX_LENGTH_BYTES + 1)

_Ints = NDArray[np.int64]


class Lists(NamedTuple):
    """The places of the lists of one feature.

    Attributes:
        kind: Kind of the lists; None for a feature without a list.
        starts: Starts of the lists in the joined records, shape ``(n,)``.
        ends: Ends of the lists in the joined records, shape ``(n,)``.
    """

    kind: ListKind | None
    starts: _Ints
    ends: _Ints


class Structure:
    """The keys of an Example, in order, and the kind of each list.

    Args:
        template: A record.

    Raises:
        FormatError: The record is not an Example.
    """

    def __init__(self, template: bytes) -> None:
        self._entries = [
            (key, _literal(_FIELD_1, key.encode()), feature.kind)
            for key, feature in scan_example(template).items()
        ]

    def match(self, data: bytes, bounds: _Ints) -> tuple[NDArray[np.bool_], dict[str, Lists]]:
        """Find the lists of records.

        Args:
            data: The records, joined.
            bounds: Start of each record, and the end of the last one, shape ``(n + 1,)``.

        Returns:
            A mask of the records that have this structure, shape ``(n,)``; and key → lists of
            these records.
        """
        walk = _Side(data, bounds)
        ends = walk.enter(_FIELD_1)
        walk.require(ends == bounds[1:])
        lists: dict[str, Lists] = {}
        for key, literal, kind in self._entries:
            entry_ends = walk.enter(_FIELD_1)
            walk.skip(literal)
            walk.require(walk.enter(_FIELD_2) == entry_ends)
            if kind is None:
                walk.require(walk.positions == entry_ends)
                starts = entry_ends
            else:
                starts = walk.enter_list(kind, entry_ends)
            walk.go_to(entry_ends)
            lists[key] = Lists(kind, starts, entry_ends)
        walk.require(walk.positions == ends)
        good = walk.good
        return good, {
            key: Lists(kind, starts[good], ends[good])
            for key, (kind, starts, ends) in lists.items()
        }


class _Side:
    """Positions in all records, which advance together.

    A record that is not as expected is only marked: its position stays within its bounds, and its
    results are dropped at the end.

    Attributes:
        positions: Current positions in the joined records, shape ``(n,)``.
        good: True for records that were as expected so far.
    """

    def __init__(self, data: bytes, bounds: _Ints) -> None:
        self._data = np.frombuffer(data + _PADDING, np.uint8)
        self._last = bounds[1:]
        self.positions = bounds[:-1]
        self.good = np.ones(len(bounds) - 1, bool)

    def require(self, found: NDArray[np.bool_]) -> None:
        """Mark the records that are not as expected."""
        self.good &= found

    def enter(self, tag: int) -> _Ints:
        """Step over a tag and a length; return the end of the content that follows."""
        self.require(self._data[self.positions] == tag)
        return self._step_over_length(self.positions + 1)

    def enter_list(self, kind: ListKind, ends: _Ints) -> _Ints:
        """Step over the tags and lengths before the only piece of a list; return its start."""
        self.require(self.enter(kind << 3 | 2) == ends)
        is_empty = self.positions == ends
        if kind is not ListKind.BYTES and is_empty.any():
            # An empty list of numbers may have no piece: then the list ends here, and the failed
            # step over the piece's tag and length is undone.
            before, good = self.positions, self.good.copy()
            self.require(self.enter(_FIELD_1) == ends)
            self.good |= good & is_empty
            self.positions = np.where(is_empty, before, self.positions)
        else:
            self.require(self.enter(_FIELD_1) == ends)
        return self.positions

    def skip(self, literal: NDArray[np.uint8]) -> None:
        """Step over bytes that are equal in all records."""
        after = self.positions + len(literal)
        # Clipped to the data: in the last record, if damaged, the literal may run past the end.
        places = np.minimum(self.positions[:, None] + np.arange(len(literal)), len(self._data) - 1)
        self.require((self._data[places] == literal).all(axis=1))
        self.go_to(after)

    def go_to(self, positions: _Ints) -> None:
        """Set the positions; positions behind the end of a record are clipped and marked."""
        self.require(positions <= self._last)
        self.positions = np.minimum(positions, self._last)

    def _step_over_length(self, positions: _Ints) -> _Ints:
        byte = self._data[positions]
        lengths = (byte & 0x7F).astype(np.int64)
        more, shift, positions = byte > 0x7F, 7, positions + 1
        # The next byte of those varints that continue; all others get 0 and stay where they are.
        while more.any() and shift < 7 * _MAX_LENGTH_BYTES:
            byte = np.where(more, self._data[np.minimum(positions, len(self._data) - 1)], 0)
            lengths |= (byte & 0x7F).astype(np.int64) << shift
            positions = positions + more
            more, shift = byte > 0x7F, shift + 7
        self.require(np.logical_not(more))
        self.go_to(positions)
        ends = self.positions + lengths
        self.require(ends <= self._last)
        clipped: _Ints = np.minimum(ends, self._last)
        return clipped


def _literal(tag: int, content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(bytes([tag]) + encode_varint(len(content)) + content, np.uint8)
