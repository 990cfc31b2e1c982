"""The files beside the shards of a version: their names, and the columns of those in Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from trainfeed.dataset.chunks import Chunk

__all__ = [
    "BUILT",
    "CHUNKS",
    "CHUNKS_SCHEMA",
    "DOCUMENTS",
    "POSITIONS",
    "POSITIONS_SCHEMA",
    "STATISTICS",
    "ShardChunk",
]

BUILT: Final = "BUILT.json"
CHUNKS: Final = "CHUNKS.arrow"
# Folder of the files that the data set's folder gives every version.
DOCUMENTS: Final = "documents"
POSITIONS: Final = "POSITIONS.arrow"
STATISTICS: Final = "statistics.json"

CHUNKS_SCHEMA: Final = pa.schema(
    {
        "split": pa.utf8(),
        "shard": pa.int32(),
        "offset_bytes": pa.int64(),
        "stored_bytes": pa.int32(),
        "raw_bytes": pa.int32(),
        "num_records": pa.int32(),
        "crc32": pa.uint32(),
        "codec": pa.int32(),
        "first_ordinal": pa.int64(),
    }
)
POSITIONS_SCHEMA: Final = pa.schema(
    {
        "split": pa.dictionary(pa.int32(), pa.utf8()),
        "source": pa.int32(),
        "offset": pa.int64(),
        "ordinal": pa.int32(),
    }
)


@dataclass(frozen=True)
class ShardChunk:
    """One chunk of a split.

    Attributes:
        shard: Index of the shard within the split.
        info: Place, sizes and checksum of the chunk; a run of Examples if the shards are TFRecord
            files.
        first_ordinal: Ordinal of its first sample within the split.
    """

    shard: int
    info: Chunk
    first_ordinal: int
