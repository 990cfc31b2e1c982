"""RecordIO files as a source; the chunk headers serve as their index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainfeed.errors import ConfigError, FormatError
from trainfeed.loader.files import DEFAULT_READ_DEADLINE_S, ShardFiles, is_network
from trainfeed.loader.sources._chunks import ShardAccess
from trainfeed.loader.sources._known_chunks import ChunkTable, Verify
from trainfeed.loader.sources._published import layout_digest
from trainfeed.loader.sources._shard_source import ShardSource
from trainfeed.paths import FilePath, SetWatch, expand_paths
from trainfeed.recordio import MAX_RAW_BYTES, ChunkInfo, RecordIndex
from trainfeed.samples import LENGTH_BYTES, Schema

__all__ = ["RecordFiles"]


class RecordFiles:
    """RecordIO files for a loader.

    Without a schema, batches have one field, ``record``, that holds bytes.

    Args:
        paths: Files, as ``RecordScanner`` takes them: a path, a list, a list between commas, globs.
        schema: Schema of the samples in the records.
        indexes: One index per file, in order; None reads the chunk headers.
        immutable: Promise that the files do not change while they are read. Files on a local disk
            are then mapped where that saves a copy; a mapped file that is truncated kills the
            process.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.

    Attributes:
        paths: The files.
        schema: As above.

    Raises:
        NotFoundError: A path matches no file, or a shard of a glob is missing.
        ConflictError: The files are of several sets of shards.
        FormatError: A shard has another size than its manifest says.
        FileReplacedError: The set of shards is being replaced. Also raised while the files are
            read, if the set was converted again after this object was made.
        ConfigError: There is not one index per file.
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath],
        schema: Schema | None = None,
        *,
        indexes: Sequence[RecordIndex] | None = None,
        immutable: bool = False,
        max_raw_bytes: int = MAX_RAW_BYTES,
    ) -> None:
        self.paths = [str(path) for path in expand_paths(paths)]
        self._sets = SetWatch(self.paths)
        self.schema = schema
        if indexes is not None and len(indexes) != len(self.paths):
            raise ConfigError(
                f"expected one index per file, got {len(indexes)} for {len(self.paths)} files"
            )
        self._indexes = indexes
        self._immutable = immutable
        self._max_raw_bytes = max_raw_bytes

    def source(
        self,
        *,
        verify: Verify = Verify.FIRST,
        deadline_s: float = DEFAULT_READ_DEADLINE_S,
        max_skipped: int = 0,
        in_order: bool = True,
    ) -> ShardSource:
        """Return the files as a source.

        Raises:
            FormatError: A file is damaged, has another layout or another size than its manifest
                says, or a chunk is too large.
        """
        indexes = self._indexes or [RecordIndex.load(path) for path in self.paths]
        # The indexes and the files must be of the same version of the set. The order of samples
        # follows from the chunks, so a shard of another size is refused also where damaged chunks
        # are left out.
        self._sets.require_sizes()
        self._sets.require_unchanged()
        chunks: list[tuple[int, ChunkInfo]] = [
            (shard, info) for shard, index in enumerate(indexes) for info in index.chunks
        ]
        for shard, info in chunks:
            self._require_possible(info, self.paths[shard])
        table = ChunkTable.of(chunks)
        network = any(is_network(str(folder)) for folder in {Path(p).parent for p in self.paths})
        # The checksums of all stored chunks identify the content.
        content = table.crc32.astype("<u4").tobytes().hex()
        return ShardSource(
            ShardFiles(self.paths, deadline_s=deadline_s, in_order=in_order, sets=self._sets),
            table,
            digest=layout_digest(f"records/{content}", table),
            schema=self.schema,
            access=ShardAccess(
                verify, mapped=self._immutable and not network, max_skipped=max_skipped
            ),
        )

    def _require_possible(self, info: ChunkInfo, path: str) -> None:
        """Refuse a chunk whose sizes are impossible, before memory is allocated for it."""
        words = info.stored_bytes, info.num_records, info.crc32
        offset_bytes = info.offset_bytes
        # These fields are 32-bit words in the header of a chunk; an index from elsewhere may hold
        # anything.
        if min(*words, offset_bytes) < 0 or max(words) >> 32:
            what = f"expected sizes and a checksum of 32 bits, got {info}"
        elif info.raw_bytes > self._max_raw_bytes:
            what = (
                f"expected at most {self._max_raw_bytes} bytes in a chunk, it announces"
                f" {info.raw_bytes}; raise max_raw_bytes if the file can be trusted"
            )
        elif info.num_records * LENGTH_BYTES > info.raw_bytes or (
            info.raw_bytes and not info.num_records
        ):
            what = f"{info.num_records} records cannot be in {info.raw_bytes} bytes of framing"
        else:
            return
        raise FormatError(what, path=path, offset_bytes=offset_bytes)
