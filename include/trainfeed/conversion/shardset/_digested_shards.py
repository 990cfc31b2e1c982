"""Writes ordered samples to shard files, and computes the size and digest of each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import numpy as np
import xxhash
from numpy.typing import NDArray

from trainfeed import faults
from trainfeed.conversion._conversion_options import RecordSink, open_sink
from trainfeed.conversion.sorting import SortedParts
from trainfeed.dataset.shards import ShardFormat, ShardInfo
from trainfeed.paths import DigestedFile, TargetFile, os_errors
from trainfeed.recordio import RecordWriter

__all__ = ["DigestingFile", "write_records", "write_shards"]

# Bytes of records handed to a writer at once: their copy stays in the cache of the processor.
_STEP_BYTES: Final = 1 << 20
# A set up to this size stays in the page cache: it is probably read soon, and takes little memory.
_CACHED_BYTES: Final = 256 << 20


class DigestingFile(DigestedFile):
    """A new file in a staging folder, with the digest of its bytes.

    Args:
        path: Path of the file, which must not exist.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._raw = TargetFile(path)
        super().__init__(cast("BinaryIO", self._raw), xxhash.xxh3_128())

    def seal(self, *, keep_cached: bool) -> str:
        """Sync and close the file; return the digest.

        Args:
            keep_cached: Whether the pages of the file stay in the page cache. Otherwise they are
                released, so that the kernel finds free memory for the next file.
        """
        with os_errors(self.name):
            os.fsync(self._raw.fileno())
            if not keep_cached:
                os.posix_fadvise(self._raw.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self.close()
        return self.hexdigest

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if not self.closed:
            self._raw.close()
        super().close()


def write_shards(
    samples: SortedParts,
    folder: Path,
    shards: Sequence[tuple[str, int]],
    *,
    shard_format: ShardFormat,
) -> Iterator[ShardInfo]:
    """Write consecutive shards.

    Args:
        samples: All samples of the shards, from ``iter_sorted``.
        folder: Folder for the files; none of the names exists in it.
        shards: Name and number of samples of each shard.
        shard_format: File format, codec and level.

    Yields:
        Each shard, after it was synced to disk.

    Raises:
        FormatError: A spill file is damaged.
        QuotaExceededError: The disk is full.
        StorageError: A file refused the bytes.
    """
    rows, num_bytes = _iter_rows(samples), 0
    rest: NDArray[Any] | list[bytes] = []
    for name, size in shards:
        file = DigestingFile(folder / name)
        try:
            with open_sink(shard_format, cast("BinaryIO", file)) as sink:
                left = size
                while left:
                    rest = rest if len(rest) > 0 else next(rows)
                    write_records(sink, rest[:left])
                    left, rest = left - len(rest[:left]), rest[left:]
            num_bytes += file.num_bytes
            digest = file.seal(keep_cached=num_bytes <= _CACHED_BYTES)
        finally:
            file.close()
        faults.point("convert.after_shard")
        yield ShardInfo(name, size, file.num_bytes, digest)


def write_records(sink: RecordSink, records: NDArray[Any] | Sequence[bytes]) -> None:
    """Write records: an array of records of one size, or a sequence of any records."""
    if isinstance(records, np.ndarray) and isinstance(sink, RecordWriter):
        sink.write_array(records)
        return
    items = map(np.void.tobytes, records) if isinstance(records, np.ndarray) else records
    for record in items:
        sink.write(record)


def _iter_rows(
    parts: SortedParts,
) -> Iterator[NDArray[Any] | list[bytes]]:
    for samples, start, stop in parts:
        step = samples.num_rows_of(_STEP_BYTES)
        for low in range(start, stop, step):
            yield samples.rows(low, min(low + step, stop))
