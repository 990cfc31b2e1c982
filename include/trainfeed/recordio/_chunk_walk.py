"""Reads a file chunk by chunk under a policy for damage, or verifies the whole file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainfeed.damage import DamageMode, DamagePolicy, DamageReport
from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import ShardSize, path_of
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
    size: ShardSize | None = None,
) -> Iterator[tuple[ChunkInfo, memoryview]]:
    """Read a file chunk by chunk.

    Args:
        file: A path, a descriptor, or a seekable binary file; read from its first byte.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.
        buffers: Memory for chunks, used again for every chunk.
        on_damage: Policy for damaged chunks.
        report: Account of dropped chunks; needed unless ``on_damage`` is strict. Earlier entries
            count towards the limits of the policy.
        size: The size that the manifest of the file's set states. Another size is damage: what the
            file lacks, or has after the stated end, is one dropped range at its end.

    Yields:
        Each chunk and its framing, with verified checksum and length. The number of records is
        verified by the functions that split the framing, and here only under ``skip_chunk``. With
        ``buffers`` the framing is valid until the next chunk is requested; otherwise it has memory
        of its own.

    Raises:
        TruncatedError: The file ends inside a chunk, or is shorter than ``size``.
        BadMagicError: No chunk starts where one should.
        ChecksumError: A payload is damaged.
        UnsupportedCodecError: This version does not know the codec.
        FormatError: A chunk is larger than allowed, does not decompress to the announced size, or
            the file has another layout, or is longer than ``size``.
        ConfigError: ``on_damage`` is not strict, and there is no ``report``.
    """
    if report is None:
        if on_damage.mode is not DamageMode.STRICT:
            raise ConfigError("expected a report for what is dropped, got None; pass report=")
        report = DamageReport()
    with open_source(file) as source:
        end_bytes, offset_bytes, number = source.num_bytes(), 0, 0
        sizes = (end_bytes,) if size is None else sorted((end_bytes, size.num_bytes))
        problem = None if size is None else size.problem(source.path, end_bytes)
        if problem is not None and not on_damage.allows(problem):
            raise problem
        end_bytes = sizes[0]
        # Buffers of its own: a search for the next chunk must not overwrite a framing still in use.
        resync = ChunkResync(source, ChunkReader(source, ChunkBuffers(), max_raw_bytes), end_bytes)
        drops = _Drops(on_damage, report, source, resync)
        while offset_bytes < end_bytes:
            reader = ChunkReader(source, buffers or ChunkBuffers(), max_raw_bytes)
            try:
                with located(source.path, offset_bytes, number):
                    info, framing = reader.read(offset_bytes, end_bytes)
                    # A skipped chunk must yield no record, so its lengths are checked before it is
                    # delivered.
                    if on_damage.skips:
                        record_bounds(framing, info.num_records)
            except FormatError as error:
                offset_bytes = drops.drop(offset_bytes, error)
            else:
                yield info, framing
                offset_bytes = info.end_bytes
            number += 1
        if problem is not None:
            on_damage.drop_rest(report, source.path, sizes[0], sizes[-1], problem)


def verify_shard(file: ReadableFile, *, max_raw_bytes: int = MAX_RAW_BYTES) -> RecordIndex:
    """Verify a file to its last record; one chunk at a time is in memory.

    Args:
        file: A path, a descriptor, or a seekable binary file.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.

    Returns:
        The index of the file; every number in it was verified.

    Raises:
        TruncatedError: The file ends inside a chunk.
        BadMagicError: No chunk starts where one should.
        ChecksumError: A payload is damaged.
        UnsupportedCodecError: This version does not know the codec of a chunk.
        FormatError: The content of a chunk differs from its header, or the chunk is too large.
    """
    infos = []
    chunks = iter_chunks(file, max_raw_bytes=max_raw_bytes, buffers=ChunkBuffers())
    for number, (info, framing) in enumerate(chunks):
        with located(path_of(file), info.offset_bytes, number):
            record_bounds(framing, info.num_records)
        infos.append(info)
    return RecordIndex(tuple(infos))


class _Drops:
    """Drops damaged chunks that the policy allows to drop, and notes them in the report."""

    def __init__(
        self, policy: DamagePolicy, report: DamageReport, source: ByteSource, resync: ChunkResync
    ) -> None:
        self._policy = policy
        self._report = report
        self._source = source
        self._resync = resync

    def drop(self, offset_bytes: int, error: FormatError) -> int:
        """Return the offset where reading goes on; raise the error if the policy does not apply."""
        if self._policy.mode is DamageMode.STRICT:
            raise error
        # A plain FormatError: header and payload contradict each other, and either may be wrong,
        # so the number of lost records is unknown.
        is_unclear = type(error) is FormatError
        if is_unclear and foreign_layout(self._source, offset_bytes, self._resync.end_bytes):
            raise error
        self._policy.require_drop(error, self._report)
        with located(self._source.path, offset_bytes):
            gap = self._resync.gap_at(offset_bytes)
        # Policies that do not skip accept only a torn tail: damage with no whole chunk after it.
        if not (self._policy.skips or self._resync.is_torn(offset_bytes, gap)):
            raise error
        if is_unclear:
            gap = gap._replace(num_records=None)
        self._report.drop(self._source.path, offset_bytes, gap, error)
        return gap.end_bytes
