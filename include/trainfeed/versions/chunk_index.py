"""The two kinds of rows in a chunk index: a chunk of RecordIO, or a run of Examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

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
