"""RecordIO files as a source: their headers are the index."""

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

    Without a schema, batches have one field, ``record``, of bytes.

    Args:
        paths: Files, as ``RecordScanner`` takes them: a path, a list, a list between commas, globs.
        schema: That of the samples in the records.
        indexes: One per file, in order; the headers are read when None.
        immutable: Promise that the files do not change while they are read. Those on a local disk
            are then mapped where that saves a copy; a mapped file that is cut kills the process.
        max_raw_bytes: Refuse a chunk whose framing is longer.

    Attributes:
        paths: The files.
        schema: As above.

    Raises:
        NotFoundError: A path matches no file, or a shard of a glob is missing.
        ConflictError: The files are of several sets of shards.
        FileReplacedError: Their set is being replaced; also raised while they are read, when it was
            converted again since they were looked up.
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
            FormatError: A file is damaged, or in another layout, or a chunk is too large.
        """
        indexes = self._indexes or [RecordIndex.load(path) for path in self.paths]
        self._sets.require_unchanged()
        chunks: list[tuple[int, ChunkInfo]] = [
            (shard, info) for shard, index in enumerate(indexes) for info in index.chunks
        ]
        for shard, info in chunks:
            self._require_possible(info, self.paths[shard])
        table = ChunkTable.of(chunks)
        network = any(is_network(str(folder)) for folder in {Path(p).parent for p in self.paths})
        # Checksums of all chunks as stored: equal ones, equal content.
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
        """Refuse a chunk whose sizes cannot be right, before memory is taken for it."""
        words = info.stored_bytes, info.num_records, info.crc32
        offset_bytes = info.offset_bytes
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
