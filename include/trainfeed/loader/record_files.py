"""Sets of files as sources: published versions, RecordIO files, TFRecord files.

Worker processes do not import this file, which brings manifests along.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainfeed.core.datacenters import local_target
from trainfeed.errors import ConfigError, FormatError
from trainfeed.files import FilePath, SetWatch, expand_paths
from trainfeed.loader.chunk_samples import ShardSource
from trainfeed.loader.chunks import ShardAccess, Verify
from trainfeed.loader.files import DEFAULT_READ_DEADLINE_S, ShardFiles
from trainfeed.loader.mounts import is_network
from trainfeed.recordio import MAX_RAW_BYTES, ChunkInfo, RecordIndex
from trainfeed.samples import LENGTH_BYTES, Schema
from trainfeed.versions.chunk_index import Chunk, ChunkTable

if TYPE_CHECKING:
    from trainfeed.loader.tfrecord_source import PlaceFinder, TFRecordSource
    from trainfeed.readers import DatasetReader


# --- Published versions as a source; workers do not import this module or manifests

_IF_REMOVED: Final = (
    "a removed version cannot be read any further: read another, or keep versions longer"
    " (retention)"
)


def published_source(
    dataset: DatasetReader,
    *,
    verify: Verify = Verify.FIRST,
    deadline_s: float = DEFAULT_READ_DEADLINE_S,
    max_skipped: int = 0,
    in_order: bool = True,
) -> ShardSource:
    """Return the source of a split of one or more versions.

    Versions never change, so they may be mapped where their files are local.

    Raises:
        ChecksumError: A chunk index differs from the published one.
        FormatError: A shard has another size than the manifest says, and no chunk may be skipped.
    """
    if dataset.remote is not None:
        files = dataset.remote.shards(dataset.versions, dataset.split, deadline_s=deadline_s)
        return ShardSource(
            files,
            files.table,
            digest=layout_digest(f"{dataset.content_digest}/{dataset.split}", files.table),
            schema=dataset.schema,
            access=ShardAccess(verify, max_skipped=max_skipped),
        )
    paths: list[Path] = []
    chunks: list[tuple[int, Chunk]] = []
    for version in dataset.versions:
        first_shard = len(paths)
        # The index of the version has every chunk: those that a cut shard lacks count as damaged.
        paths += version.shard_paths(dataset.split, sizes=not max_skipped)
        chunks += [
            (first_shard + chunk.shard, chunk.info) for chunk in version.chunks(dataset.split)
        ]
    table = ChunkTable.of(chunks)
    network = any(is_network(str(folder)) for folder in {path.parent for path in paths})
    return ShardSource(
        ShardFiles(
            [str(path) for path in paths],
            deadline_s=deadline_s,
            in_order=in_order,
            if_gone=_IF_REMOVED,
        ),
        table,
        digest=layout_digest(f"{dataset.content_digest}/{dataset.split}", table),
        schema=dataset.schema,
        access=ShardAccess(verify, mapped=not network, max_skipped=max_skipped),
    )


def layout_digest(content: str, table: ChunkTable) -> str:
    """Return a digest over content and its cut into chunks, 16 hex digits.

    Two sets of equal content may be cut into different chunks, and then have different orders.
    Codec and format of the chunks have no influence.
    """
    digest = hashlib.sha256(content.encode())
    digest.update(table.num_records.astype("<i8").tobytes())
    digest.update(table.raw_bytes.astype("<i8").tobytes())
    return digest.hexdigest()[:16]


# --- RecordIO files as a source; the chunk headers serve as their index


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


# --- TFRecord files for a loader; the code that reads them is imported when files are opened


class TFRecordFiles:
    """Uncompressed TFRecord files for a loader.

    Without fields, batches have one field, ``record``, that holds bytes. Compressed files cannot
    be read from the middle; iterate ``trainfeed.readers.tfrecord`` over those.

    Args:
        paths: Files, as ``TFRecordReader`` takes them.
        fields: The fields of the Examples in the records, as a schema.
        index_folder: A folder that keeps the places of the records, 8 bytes per record; made when
            it is missing, writable for one account. Without it the first loader of every process
            reads the files once more, to find the lengths of the records. A kept index is valid
            while size and modification time of the file are unchanged; a file that changed less
            than two seconds ago is not indexed.

    Attributes:
        paths: The files.
        schema: The fields.

    Raises:
        NotFoundError: A path matches no file, or a shard of a glob is missing.
        ConflictError: The files are of several sets of shards.
        FormatError: A shard has another size than its manifest says.
        FileReplacedError: The set of shards is being replaced. Also raised while the files are
            read, if the set was converted again after this object was made.
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath],
        fields: Schema | None = None,
        *,
        index_folder: FilePath | None = None,
    ) -> None:
        self.paths = [str(path) for path in expand_paths(paths, counts=True)]
        self._sets = SetWatch(self.paths)
        self.schema = fields
        self._index_folder = None if index_folder is None else Path(local_target(index_folder))

    def source(
        self,
        *,
        verify: Verify = Verify.FIRST,
        deadline_s: float = DEFAULT_READ_DEADLINE_S,
        in_order: bool = True,
    ) -> TFRecordSource:
        """Return the files as a source; reads the lengths of all records that are not indexed.

        Raises:
            FormatError: A file is compressed, or is not a TFRecord file, or has a record that is
                too long.
            StorageError: A file cannot be read, or the index folder cannot be written to.
        """
        from trainfeed.loader.tfrecord_source import TFRecordSource

        files = ShardFiles(self.paths, deadline_s=deadline_s, in_order=in_order, sets=self._sets)
        with self._sets.explains():
            places = [self._finder.find(path) for path in self.paths]
            source = TFRecordSource(files, self.schema, places, verify=verify)
        self._sets.require_sizes()
        self._sets.require_unchanged()
        return source

    @cached_property
    def _finder(self) -> PlaceFinder:
        """The finder of record places; all sources of these files share it."""
        from trainfeed.loader.tfrecord_source import PlaceFinder

        return PlaceFinder(self._index_folder)
