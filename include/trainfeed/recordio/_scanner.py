"""All records of one file, or of several, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainfeed.damage import DamagePolicy, DamageReport
from trainfeed.paths import FilePath, SetWatch, expand_paths
from trainfeed.recordio._chunk import ChunkBuffers
from trainfeed.recordio._chunk_walk import iter_chunks
from trainfeed.recordio._framing import iter_records, record_bounds
from trainfeed.recordio._recordio_format import MAX_RAW_BYTES, located

__all__ = ["RecordScanner"]


class RecordScanner:
    """The records of files, in order; can be iterated again.

    Without ``on_damage`` the first damage of a file ends the scan with an error.

    Args:
        paths: A path, several paths separated by commas, or a list of these. Each part of a text
            may be a glob, whose matches are sorted by name; path objects are taken literally.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.
        on_damage: Policy for damaged chunks; None is strict. Its limits count over all files.
            A shard that is shorter or longer than its manifest says is damaged at its end: records
            up to the smaller size are read, and the rest is one dropped range.

    Attributes:
        paths: The files, in the order in which they are read.
        report: Account of the chunks that the latest iteration has dropped so far.

    Raises:
        NotFoundError: A part matches no file (the message names the part), or a shard of a glob is
            missing.
        ConflictError: The files are of several sets of shards.
        FormatError: A shard has another size than its manifest says, and the policy is strict.
        FileReplacedError: The set of shards is being replaced.
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath],
        *,
        max_raw_bytes: int = MAX_RAW_BYTES,
        on_damage: DamagePolicy | None = None,
    ) -> None:
        self.paths = expand_paths(paths)
        self._on_damage = on_damage or DamagePolicy.strict()
        self._sets = SetWatch(self.paths, sizes=self._on_damage == DamagePolicy.strict())
        self.report = DamageReport()
        self._max_raw_bytes = max_raw_bytes

    def __iter__(self) -> Iterator[bytes]:
        """Read all files.

        Raises:
            TruncatedError: A file ends inside a chunk.
            BadMagicError: No chunk starts where one should.
            ChecksumError: A payload is damaged.
            UnsupportedCodecError: This version does not know the codec of a chunk.
            FormatError: The content of a chunk differs from its header, or the chunk is too large.
            FileReplacedError: The set of shards was converted again since the files were looked up.
        """
        buffers = ChunkBuffers()
        report = self.report = DamageReport()
        for path in self.paths:
            chunks = iter_chunks(
                path,
                max_raw_bytes=self._max_raw_bytes,
                buffers=buffers,
                on_damage=self._on_damage,
                report=report,
                size=self._sets.size_of(path),
            )
            for number, (info, framing) in enumerate(self._sets.over(chunks)):
                with located(path, info.offset_bytes, number):
                    bounds = record_bounds(framing, info.num_records)
                yield from map(bytes, iter_records(framing, bounds))
