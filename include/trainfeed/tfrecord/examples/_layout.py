"""Records that differ only in values, so that one parsed record gives the places in all.

Examples of fields of fixed size, written by one program, have the same tags, lengths and keys at
the same places. One record is parsed as a template; the others are compared with it at these
places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.tfrecord.examples._example import scan_example
from trainfeed.tfrecord.examples._feature_columns import FeatureColumn
from trainfeed.tfrecord.examples._features import ListKind, RawFeature

__all__ = ["Layout"]

# Bits of a byte that must equal the template: all in tags, lengths and keys; none in values; in
# varints the continuation bit, so that every number takes the same bytes.
_ALL_BITS: Final = 0xFF
_NO_BITS: Final = 0
_CONTINUATION_BIT: Final = 0x80


class _ValuePlace(NamedTuple):
    """Place of a field in a record; ``kind`` is None if the field is absent."""

    kind: ListKind | None
    start: int
    end: int


class Layout:
    """The places of fields in all records with the layout of a template.

    Args:
        template: A record.
        columns: The fields.

    Attributes:
        places: Place of each column in a record.

    Raises:
        FormatError: The record is not an Example, or a column is not in one piece.
    """

    def __init__(self, template: bytes, columns: Sequence[FeatureColumn]) -> None:
        features = scan_example(template)
        self.places = [_place(column, features.get(column.name)) for column in columns]
        mask = np.full(len(template), _ALL_BITS, np.uint8)
        for feature in features.values():
            free = _CONTINUATION_BIT if feature.kind is ListKind.INT64 else _NO_BITS
            for i in range(feature.num_pieces):
                mask[feature.bounds[2 * i] : feature.bounds[2 * i + 1]] = free
        self._compared = np.flatnonzero(mask)
        self._mask = mask[self._compared]
        self._expected = np.frombuffer(template, np.uint8)[self._compared] & self._mask

    def matches(self, rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return True for records that have this layout.

        Args:
            rows: The records as rows, shape ``(n, len(template))``.

        Returns:
            A mask of shape ``(n,)``.
        """
        found = rows[:, self._compared] & self._mask
        return np.asarray((found == self._expected).all(axis=1))


def _place(column: FeatureColumn, feature: RawFeature | None) -> _ValuePlace:
    if feature is None or feature.kind is None:
        return _ValuePlace(None, 0, 0)
    if feature.num_pieces == 1:
        return _ValuePlace(feature.kind, feature.bounds[0], feature.bounds[1])
    # An empty list of numbers may have no piece; a list that is not packed has many.
    if feature.num_pieces == 0 and feature.kind is not ListKind.BYTES:
        return _ValuePlace(feature.kind, 0, 0)
    raise column.refuse(f"{feature.num_pieces} values")
