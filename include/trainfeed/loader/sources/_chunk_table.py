"""The chunks of all shards of a set, as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.dataset.chunks import Chunk, chunk_of

__all__ = ["ChunkTable"]


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
        """Return one chunk."""
        place = {
            "offset_bytes": int(self.offset_bytes[chunk]),
            "stored_bytes": int(self.stored_bytes[chunk]),
            "raw_bytes": int(self.raw_bytes[chunk]),
            "num_records": int(self.num_records[chunk]),
            "crc32": int(self.crc32[chunk]),
        }
        return chunk_of(int(self.codec[chunk]), place)
