"""RecordIO files as a source: their headers are the index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainfeed.errors import ConfigError
from trainfeed.loader._files import DEFAULT_READ_DEADLINE_S, ShardFiles
from trainfeed.loader._mounts import is_network
from trainfeed.loader._published import layout_digest
from trainfeed.loader._shards import ChunkTable, ShardAccess, ShardSource, Verify
from trainfeed.paths import FilePath, expand_paths
from trainfeed.recordio import ChunkInfo, RecordIndex
from trainfeed.samples import Schema

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

    Attributes:
        paths: The files.
        schema: As above.

    Raises:
        NotFoundError: A path matches no file.
        ConfigError: There is not one index per file.
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath],
        schema: Schema | None = None,
        *,
        indexes: Sequence[RecordIndex] | None = None,
        immutable: bool = False,
    ) -> None:
        self.paths = [str(path) for path in expand_paths(paths)]
        self.schema = schema
        if indexes is not None and len(indexes) != len(self.paths):
            raise ConfigError(
                f"expected one index per file, got {len(indexes)} for {len(self.paths)} files"
            )
        self._indexes = indexes
        self._immutable = immutable

    def source(
        self, *, verify: Verify = Verify.FIRST, deadline_s: float = DEFAULT_READ_DEADLINE_S
    ) -> ShardSource:
        """Return the files as a source.

        Raises:
            FormatError: A file is damaged, or in another layout.
        """
        indexes = self._indexes or [RecordIndex.load(path) for path in self.paths]
        chunks: list[tuple[int, ChunkInfo]] = [
            (shard, info) for shard, index in enumerate(indexes) for info in index.chunks
        ]
        table = ChunkTable.of(chunks)
        network = any(is_network(str(folder)) for folder in {Path(p).parent for p in self.paths})
        # Checksums of all chunks as stored: equal ones, equal content.
        content = table.crc32.astype("<u4").tobytes().hex()
        return ShardSource(
            ShardFiles(self.paths, deadline_s=deadline_s),
            table,
            digest=layout_digest(f"records/{content}", table),
            schema=self.schema,
            access=ShardAccess(verify, mapped=self._immutable and not network),
        )
