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
    """The records of files, one after another; can be iterated again.

    Strict unless told otherwise: the first thing that is wrong with a file ends the scan with an
    error.

    Args:
        paths: Files, or several separated by commas, or a list of such. Each part of a text may be
            a glob, whose matches are sorted by name; path objects are taken as they are.
        max_raw_bytes: Refuse a chunk whose framing is longer.
        on_damage: What to do about damage, None for strict. What it lets pass is counted over all
            files.

    Attributes:
        paths: The files, in the order in which they are read.
        report: What the iteration that was started last has dropped so far.

    Raises:
        NotFoundError: A part matches no file; names the part. Or a shard of a glob is missing.
        ConflictError: The files are of several sets of shards.
        FileReplacedError: Their set is being replaced.
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath],
        *,
        max_raw_bytes: int = MAX_RAW_BYTES,
        on_damage: DamagePolicy | None = None,
    ) -> None:
        self.paths = expand_paths(paths)
        self._sets = SetWatch(self.paths)
        self.report = DamageReport()
        self._max_raw_bytes = max_raw_bytes
        self._on_damage = on_damage or DamagePolicy.strict()

    def __iter__(self) -> Iterator[bytes]:
        """Read all files.

        Raises:
            TruncatedError: A file ends inside a chunk.
            BadMagicError: No chunk starts where one should.
            ChecksumError: A payload is damaged.
            UnsupportedCodecError: This version has no codec of a chunk.
            FormatError: A chunk does not hold what it promises, or is larger than allowed.
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
            )
            for number, (info, framing) in enumerate(self._sets.over(chunks)):
                with located(path, info.offset_bytes, number):
                    bounds = record_bounds(framing, info.num_records)
                yield from map(bytes, iter_records(framing, bounds))
