"""Reads all of a shard and says what is wrong with it."""

from __future__ import annotations

from trainfeed.paths import path_of
from trainfeed.recordio._byte_source import ReadableFile
from trainfeed.recordio._chunk import ChunkBuffers
from trainfeed.recordio._chunk_index import RecordIndex
from trainfeed.recordio._chunk_walk import iter_chunks
from trainfeed.recordio._framing import record_bounds
from trainfeed.recordio._recordio_format import MAX_RAW_BYTES, located

__all__ = ["verify_shard"]


def verify_shard(file: ReadableFile, *, max_raw_bytes: int = MAX_RAW_BYTES) -> RecordIndex:
    """Read a file to its last record, in memory for one chunk.

    Args:
        file: A path, a descriptor, or a seekable binary file.
        max_raw_bytes: Refuse a chunk whose framing is longer.

    Returns:
        Its index; every number in it was verified.

    Raises:
        TruncatedError: The file ends inside a chunk.
        BadMagicError: No chunk starts where one should.
        ChecksumError: A payload is damaged.
        UnsupportedCodecError: This version has no codec of a chunk.
        FormatError: A chunk does not hold what it promises, or is larger than allowed.
    """
    infos = []
    chunks = iter_chunks(file, max_raw_bytes=max_raw_bytes, buffers=ChunkBuffers())
    for number, (info, framing) in enumerate(chunks):
        with located(path_of(file), info.offset_bytes, number):
            record_bounds(framing, info.num_records)
        infos.append(info)
    return RecordIndex(tuple(infos))
