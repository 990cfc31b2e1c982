"""The chunks of a set: their table, which are verified, and decoded ones that are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.dataset.chunks import Chunk, chunk_of
from trainfeed.loader.order import Span
from trainfeed.thread_ties import new_lock

__all__ = ["ChunkTable", "KeptChunks", "Verified", "Verify"]

# Decoded chunks that two windows share, kept for the second window. Enough for one chunk of usual
# size per pair of neighbouring lanes.
_MAX_KEPT_BYTES: Final = 16 << 20


@dataclass(frozen=True, eq=False)
class ChunkTable:
    """The chunks of all shards, as columns of shape ``(num_chunks,)``; see ``ChunkInfo``."""

    shard: NDArray[np.int32]
    offset_bytes: NDArray[np.int64]
    stored_bytes: NDArray[np.int64]
    raw_bytes: NDArray[np.int64]
    num_records: NDArray[np.int64]
    crc32: NDArray[np.uint32]
    codec: NDArray[np.int32]

    @classmethod
    def of(cls, chunks: Sequence[tuple[int, Chunk]]) -> ChunkTable:
        """Make a table of shard numbers and chunks; those without records are left out."""
        kept = [(shard, info) for shard, info in chunks if info.num_records]

        def column(get: Callable[[Chunk], int], dtype: Any) -> NDArray[Any]:
            return np.array([get(info) for _, info in kept], dtype)

        return cls(
            shard=np.array([shard for shard, _ in kept], np.int32),
            offset_bytes=column(lambda info: info.offset_bytes, np.int64),
            stored_bytes=column(lambda info: info.stored_bytes, np.int64),
            raw_bytes=column(lambda info: info.raw_bytes, np.int64),
            num_records=column(lambda info: info.num_records, np.int64),
            crc32=column(lambda info: info.crc32, np.uint32),
            codec=column(lambda info: info.codec, np.int32),
        )

    def info(self, chunk: int) -> Chunk:
        """Return the entry of one chunk."""
        place = {
            "offset_bytes": int(self.offset_bytes[chunk]),
            "stored_bytes": int(self.stored_bytes[chunk]),
            "raw_bytes": int(self.raw_bytes[chunk]),
            "num_records": int(self.num_records[chunk]),
            "crc32": int(self.crc32[chunk]),
        }
        return chunk_of(int(self.codec[chunk]), place)


class Verify(StrEnum):
    """When checksums are compared: always, the first time that a process reads a chunk, never."""

    ALWAYS = "always"
    FIRST = "first"
    NEVER = "never"


class Verified:
    """The chunks that this process has verified; threads may share the object.

    Args:
        verify: When checksums are compared.
        num_chunks: Number of chunks of the set.

    Attributes:
        always: Whether every read verifies, so that no result of an earlier read may be used again.
    """

    def __init__(self, verify: Verify, num_chunks: int) -> None:
        self.always = verify is Verify.ALWAYS
        self._never = verify is Verify.NEVER
        self._is_known = np.zeros(num_chunks, bool)

    def is_due(self, chunk: int) -> bool:
        """Return whether checksum and content of a chunk must be verified."""
        return not self._never and self.is_new(chunk)

    def is_new(self, chunk: int) -> bool:
        """Return whether a chunk was not read before, or every read counts as the first."""
        return self.always or not self._is_known[chunk]

    def add(self, chunk: int) -> None:
        """Note that a chunk was read, and verified if ``is_due`` asked for that."""
        self._is_known[chunk] = True


class KeptChunks:
    """Decoded chunks with samples that no window has requested yet.

    Lanes are cut by record, so two neighbouring lanes share a chunk, which would be decoded twice.
    The oldest chunks are dropped when the kept bytes pass a limit.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        # Per chunk the framing, and the number of its samples that were not requested yet.
        self._chunks: OrderedDict[int, tuple[NDArray[np.uint8], int]] = OrderedDict()
        self._num_bytes = 0

    def find(self, span: Span) -> NDArray[np.uint8] | None:
        """Return the framing of a kept chunk, and drop it once all its samples were requested."""
        with self._lock:
            found = self._chunks.pop(span.chunk, None)
            if found is None:
                return None
            framing, num_left = found
            self._num_bytes -= framing.nbytes
            self.keep(span, framing, num_left)
            return framing

    def keep(self, span: Span, framing: NDArray[np.uint8], num_left: int) -> None:
        """Keep the framing of a chunk that had ``num_left`` samples left before this span."""
        num_left -= span.stop - span.start
        with self._lock:
            if num_left <= 0 or framing.nbytes > _MAX_KEPT_BYTES or span.chunk in self._chunks:
                return
            self._chunks[span.chunk] = framing, num_left
            self._num_bytes += framing.nbytes
            while self._num_bytes > _MAX_KEPT_BYTES:
                self._num_bytes -= self._chunks.popitem(last=False)[1][0].nbytes
