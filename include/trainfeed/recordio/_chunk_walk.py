"""Chunk by chunk through a file, under a policy for what is damaged; or all of it, verified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainfeed.damage import DamageMode, DamagePolicy, DamageReport
from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import path_of
from trainfeed.recordio._byte_source import ByteSource, ReadableFile, open_source
from trainfeed.recordio._chunk import ChunkBuffers, ChunkReader
from trainfeed.recordio._chunk_index import RecordIndex
from trainfeed.recordio._chunk_resync import ChunkResync
from trainfeed.recordio._foreign import foreign_layout
from trainfeed.recordio._framing import record_bounds
from trainfeed.recordio._recordio_format import MAX_RAW_BYTES, ChunkInfo, located

__all__ = ["iter_chunks", "verify_shard"]

_STRICT: Final = DamagePolicy.strict()


def iter_chunks(
    file: ReadableFile,
    *,
    max_raw_bytes: int = MAX_RAW_BYTES,
    buffers: ChunkBuffers | None = None,
    on_damage: DamagePolicy = _STRICT,
    report: DamageReport | None = None,
) -> Iterator[tuple[ChunkInfo, memoryview]]:
    """Read a file chunk by chunk.

    Args:
        file: A path, a descriptor, or a seekable binary file; read from its first byte.
        max_raw_bytes: Refuse a chunk whose framing is longer.
        buffers: Memory to use again and again.
        on_damage: What to do about damage.
        report: Gets what is dropped; needed unless ``on_damage`` is strict. What is in it already
            counts for the most that may be dropped.

    Yields:
        Each chunk and its framing, whose checksum and length were verified; whether its records
        are as many as promised is for who splits it, except under ``skip_chunk``, where it was
        verified too. With ``buffers`` the framing is valid until the next chunk is asked for; else
        it is the caller's.

    Raises:
        TruncatedError: The file ends inside a chunk.
        BadMagicError: No chunk starts where one should.
        ChecksumError: A payload is damaged.
        UnsupportedCodecError: This version has no such codec.
        FormatError: A chunk is larger than allowed, does not decompress to what it announces, or
            the file is in another layout.
        ConfigError: There is no ``report`` for what ``on_damage`` lets pass.
    """
    if report is None:
        if on_damage.mode is not DamageMode.STRICT:
            raise ConfigError("expected a report for what is dropped, got None; pass report=")
        report = DamageReport()
    with open_source(file) as source:
        end_bytes, offset_bytes, number = source.num_bytes(), 0, 0
        resync = ChunkResync(source, ChunkReader(source, ChunkBuffers(), max_raw_bytes), end_bytes)
        drops = _Drops(on_damage, report, source, resync)
        while offset_bytes < end_bytes:
            reader = ChunkReader(source, buffers or ChunkBuffers(), max_raw_bytes)
            try:
                with located(source.path, offset_bytes, number):
                    info, framing = reader.read(offset_bytes, end_bytes)
                    if on_damage.skips:
                        record_bounds(framing, info.num_records)
            except FormatError as error:
                offset_bytes = drops.drop(offset_bytes, error)
            else:
                yield info, framing
                offset_bytes = info.end_bytes
            number += 1


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


class _Drops:
    """Drops what a policy lets pass, and accounts for it."""

    def __init__(
        self, policy: DamagePolicy, report: DamageReport, source: ByteSource, resync: ChunkResync
    ) -> None:
        self._policy = policy
        self._report = report
        self._source = source
        self._resync = resync

    def drop(self, offset_bytes: int, error: FormatError) -> int:
        """Return where reading goes on, or raise what is no case for the policy."""
        if self._policy.mode is DamageMode.STRICT:
            raise error
        # An error of no kind of its own: header and payload differ, and either may be wrong.
        is_unclear = type(error) is FormatError
        if is_unclear and foreign_layout(self._source, offset_bytes, self._resync.end_bytes):
            raise error
        self._policy.require_drop(error, self._report)
        with located(self._source.path, offset_bytes):
            gap = self._resync.gap_at(offset_bytes)
        if not (self._policy.skips or self._resync.is_torn(offset_bytes, gap)):
            raise error
        if is_unclear:
            gap = gap._replace(num_records=None)
        self._report.drop(self._source.path, offset_bytes, gap, error)
        return gap.end_bytes
