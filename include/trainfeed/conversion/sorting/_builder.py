"""Collects records and writes them to disk as sorted runs.

The order of a conversion is a pure function of the seed and of the place of each sample in the
input: the key of a sample is a hash of the seed and its ordinal, and shards hold the samples by
ascending key. So memory limits, block sizes, workers and retries do not change the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed import faults
from trainfeed.conversion._conversion_options import ConvertOptions
from trainfeed.conversion.sorting._sample_spill import Spill
from trainfeed.dataset.identity import Uint64s, position_hash, source_hash

__all__ = ["RunBuilder", "sort_keys"]

# Memory of a record besides its bytes: as an object in a list, or as a row with its key.
_OBJECT_BYTES: Final = 64
_ROW_BYTES: Final = 40
_SOURCE: Final = source_hash("convert")


class RunBuilder:
    """Collects records and spills them, one run at a time.

    Args:
        spill: File for the runs.
        seed: Seed of the shuffle.
        start: Ordinal of the first record.
        options: Memory and progress function.
    """

    def __init__(self, spill: Spill, seed: int, start: int, options: ConvertOptions) -> None:
        self._spill = spill
        self._seed = seed
        self._next = start
        self._options = options
        self._records: list[bytes] = []
        self._rows: NDArray[Any] = np.empty(0, "V1")
        self._num_rows = 0
        self._weight = 0

    def add(self, record: bytes) -> None:
        """Add a record."""
        if self._num_rows:
            self.flush()
        self._records.append(record)
        self._weight += len(record) + _OBJECT_BYTES
        if self._weight >= self._options.memory_bytes:
            self.flush()

    def add_array(self, records: NDArray[Any]) -> None:
        """Add records of one size, shape ``(n,)``; they are copied."""
        records = records.view(f"V{records.itemsize}")
        if self._records:
            self.flush()
        if self._rows.dtype != records.dtype:
            self.flush()
            room = self._options.memory_bytes // (records.itemsize + _ROW_BYTES)
            self._rows = np.empty(max(1, room), records.dtype)
        while len(records):
            taken = records[: len(self._rows) - self._num_rows]
            self._rows[self._num_rows : self._num_rows + len(taken)] = taken
            self._num_rows += len(taken)
            records = records[len(taken) :]
            if self._num_rows == len(self._rows):
                self.flush()

    def add_all(self, records: NDArray[Any] | Iterable[bytes]) -> None:
        """Add records: an array of records of one size, or any records one by one."""
        if isinstance(records, np.ndarray):
            self.add_array(records)
            return
        for record in records:
            self.add(record)

    def flush(self) -> None:
        """Write the collected records as a run: rows or single records, never both at a time."""
        rows = self._rows[: self._num_rows]
        for records in (rows, self._records):
            if len(records):
                stop = self._next + len(records)
                ordinals = np.arange(self._next, stop, dtype=np.uint64)
                self._spill.append(sort_keys(self._seed, ordinals), records)
                self._next = stop
                faults.point("convert.after_run")
        self._records, self._num_rows, self._weight = [], 0, 0
        if self._options.on_progress is not None:
            self._options.on_progress(self._next, 0)


def sort_keys(seed: int, ordinals: NDArray[Any]) -> Uint64s:
    """Return the keys of samples, uint64 of shape ``(n,)``; no two samples of a set share one.

    Args:
        seed: Any integer; taken modulo 2^64.
        ordinals: Numbers of the samples in the input, from 0, shape ``(n,)``.
    """
    return position_hash(seed, _SOURCE, ordinals)
