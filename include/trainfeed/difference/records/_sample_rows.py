"""Samples with their positions, as arrays: the unit in which two versions are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.dataset.order import Uint64s

__all__ = ["SampleRows", "joined_rows", "objects"]


@dataclass(frozen=True, slots=True)
class SampleRows:
    """Samples of one version; arrays of shape (n,).

    Attributes:
        keys: Order keys, uint64.
        sources: Hashes of the source strings, uint64.
        offsets: Offsets of the records, int64.
        ordinals: Ordinals among the samples of a record, int32.
        splits: Indices into the sorted names of the version's splits, int16.
        records: The stored records, as objects of type bytes.
    """

    keys: Uint64s
    sources: Uint64s
    offsets: NDArray[Any]
    ordinals: NDArray[Any]
    splits: NDArray[Any]
    records: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.keys)

    def taken(self, rows: NDArray[Any] | slice) -> SampleRows:
        """Return the rows at some indices."""
        return SampleRows(*(column[rows] for column in self._columns()))

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return (
            self.keys,
            self.sources,
            self.offsets,
            self.ordinals,
            self.splits,
            self.records,
        )


def joined_rows(parts: Sequence[SampleRows]) -> SampleRows:
    """Return the rows of all parts, one part behind the other; no part gives no row."""
    if not parts:
        keys = np.empty(0, np.uint64)
        return SampleRows(
            keys,
            keys,
            np.empty(0, np.int64),
            np.empty(0, np.int32),
            np.empty(0, np.int16),
            np.empty(0, object),
        )
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part._columns() for part in parts), strict=True)  # noqa: SLF001 - of this class
    return SampleRows(*(np.concatenate(column) for column in columns))


def objects(values: Sequence[object]) -> NDArray[np.object_]:
    """Return values as an array of objects, shape (n,), also where they are sequences."""
    found = np.empty(len(values), object)
    found[:] = values
    return found
