"""The rows of a chunk index: chunks of RecordIO, or runs of Examples; and the table of a set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.recordio import ChunkInfo, Codec

# The number in the column ``codec`` for runs of Examples. RecordIO will never use it as a codec, so
# older readers refuse it as unknown.
EXAMPLES: Final = 64


@dataclass(frozen=True, kw_only=True)
class ExampleRun:
    """The row of a run of Examples in the index; the names are those of ``ChunkInfo``.

    Attributes:
        codec: The number for runs in the index.
        head_bytes: 0, because a run has no header.
        offset_bytes: Where the first record starts in its file.
        stored_bytes: Size of all records in the file, lengths and checksums included.
        raw_bytes: Bytes of the framing of the typed records.
        num_records: Number of records.
        crc32: CRC-32 of the stored bytes.
    """

    codec: ClassVar[int] = EXAMPLES
    head_bytes: ClassVar[int] = 0

    offset_bytes: int
    stored_bytes: int
    raw_bytes: int
    num_records: int
    crc32: int


# A row of the index.
Chunk: TypeAlias = ChunkInfo | ExampleRun


def chunk_of(codec: int, place: Mapping[str, int]) -> Chunk:
    """Return the chunk or run of a row of a chunk index.

    Args:
        codec: The number in its column ``codec``.
        place: The other attributes of the chunk, by name.

    Raises:
        ValueError: No format has this codec.
    """
    return ExampleRun(**place) if codec == EXAMPLES else ChunkInfo(**place, codec=Codec(codec))


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
