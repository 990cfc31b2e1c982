"""The output of every peer: packed records in chunks, a shard per range of keys.

The layout is that of trainfeed's RecordIO: a header of five 32-bit numbers (magic, CRC-32, codec,
bytes, records), then the records with their lengths, compressed with zstd level 1.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import cramjam
import numpy as np
from isal import isal_zlib

NUM_SHARDS = 17
NUM_INDICES, NUM_VALUES = 20, 14
RECORD = np.dtype(
    [("indices", "<i4", (NUM_INDICES,)), ("values", "<f4", (NUM_VALUES,)), ("label", "<i8")]
)
FRAMED = np.dtype([("length", "<u4"), ("record", RECORD)])
_PER_CHUNK = (1 << 20) // RECORD.itemsize // 256 * 256
_HEADER = struct.Struct("<5I")

NUMBERS = (
    "id", "year", "month", "day", "dep_time", "sched_dep_time", "sched_arr_time", "arr_delay",
    "flight", "distance",
)  # fmt: skip
TEXTS = ("carrier", "tailnum", "origin", "dest", "time_hour")
SCALES = {
    "temp": (55, 20), "dewp": (40, 20), "humid": (60, 20), "wind_speed": (10, 6),
    "wind_gust": (0, 30), "precip": (0, 0.3), "pressure": (1017, 8), "visib": (10, 5),
}  # fmt: skip


class Shards:
    """Writes records that come sorted by key, a shard per range of keys.

    Args:
        folder: Where they go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = -1
        self._file = None
        self._pending = []
        self._num_pending = 0
        self.num_records = 0

    def write(self, keys: np.ndarray, records: np.ndarray) -> None:
        """Append records; ``keys`` are unsigned 64-bit numbers."""
        edges = [((number << 64) + NUM_SHARDS - 1) // NUM_SHARDS for number in range(NUM_SHARDS)]
        starts = [*np.searchsorted(keys, np.array(edges, dtype=np.uint64)), len(keys)]
        for number in range(NUM_SHARDS):
            if starts[number] < starts[number + 1]:
                self._append(number, records[starts[number] : starts[number + 1]])

    def close(self) -> None:
        """Finish the last shard."""
        self._flush(last=True)
        if self._file is not None:
            self._file.close()

    def _append(self, number: int, records: np.ndarray) -> None:
        if number != self._number:
            self.close()
            self._file = (self._folder / f"shard-{number:05d}").open("wb", buffering=0)
            self._number = number
        self._pending.append(records)
        self._num_pending += len(records)
        self.num_records += len(records)
        if self._num_pending >= _PER_CHUNK:
            self._flush(last=False)

    def _flush(self, *, last: bool) -> None:
        if not self._pending:
            return
        records = np.concatenate(self._pending)
        end = len(records) if last else len(records) // _PER_CHUNK * _PER_CHUNK
        for start in range(0, end, _PER_CHUNK):
            part = records[start : min(start + _PER_CHUNK, end)]
            framed = np.empty(len(part), FRAMED)
            framed["length"], framed["record"] = RECORD.itemsize, part
            data = cramjam.zstd.compress(framed.view(np.uint8).data, level=1)
            crc = isal_zlib.crc32(memoryview(data))
            self._file.write(_HEADER.pack(0x01020304, crc, 17, len(data), len(part)))
            self._file.write(data)
        self._pending = [records[end:]] if end < len(records) else []
        self._num_pending = len(records) - end


def pack(column: Callable[[str], np.ndarray]) -> np.ndarray:
    """Return packed records; ``column(name)`` gives a numpy array, i0 to i19, v0 to v13, label."""
    label = column("label")
    records = np.empty(len(label), RECORD)
    for number in range(NUM_INDICES):
        records["indices"][:, number] = column(f"i{number}")
    for number in range(NUM_VALUES):
        records["values"][:, number] = column(f"v{number}")
    records["label"] = label
    return records
