"""What a row of a chunk index describes: a chunk of RecordIO, or a run of Examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from trainfeed.recordio import ChunkInfo, Codec

__all__ = ["EXAMPLES", "Chunk", "ExampleRun", "chunk_of"]

# Where the index has a codec: outside of the numbers that RecordIO may ever have, so that readers
# from before refuse it by its number.
EXAMPLES: Final = 64


@dataclass(frozen=True, kw_only=True)
class ExampleRun:
    """What the index says about one run; the names are those of ``ChunkInfo``.

    Attributes:
        codec: What stands for runs in the index.
        head_bytes: Bytes before the stored ones: a run has no header.
        offset_bytes: Where the first record starts in its file.
        stored_bytes: What all of them take there, lengths and checksums included.
        raw_bytes: Bytes of the framing of the typed records.
        num_records: How many there are.
        crc32: Of the stored bytes.
    """

    codec: ClassVar[int] = EXAMPLES
    head_bytes: ClassVar[int] = 0

    offset_bytes: int
    stored_bytes: int
    raw_bytes: int
    num_records: int
    crc32: int


# What a row of the index describes.
Chunk: TypeAlias = ChunkInfo | ExampleRun


def chunk_of(codec: int, place: Mapping[str, int]) -> Chunk:
    """Return what a row of a chunk index describes.

    Args:
        codec: The number in its column ``codec``.
        place: The other attributes of the chunk, by name.

    Raises:
        ValueError: No format has this codec.
    """
    return ExampleRun(**place) if codec == EXAMPLES else ChunkInfo(**place, codec=Codec(codec))
