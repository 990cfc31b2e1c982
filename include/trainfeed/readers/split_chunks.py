"""The chunks of a published split, one by one: from its files, or from the store that has them.

Readers, comparisons, conversions and trainers of a dispatch ask here how shards are opened. What is
at a store comes through the cache of this machine, which keeps its bound and compares each chunk
with the index of its version.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.files import ShardSize, open_plain
from trainfeed.recordio import split_records
from trainfeed.versions import Version
from trainfeed.versions.bucket_objects import place_in_bucket
from trainfeed.versions.chunk_index import EXAMPLES, Chunk, ExampleRun
from trainfeed.versions.chunks import ChunkDecoder, decoder_of
from trainfeed.versions.version import ShardChunk

if TYPE_CHECKING:
    from trainfeed.remote import RemoteRoot, RemoteShards
    from trainfeed.remote.shards import Way

_T = TypeVar("_T")


class _Place(NamedTuple):
    """Where the shards of a version are.

    Attributes:
        paths: The shards; of a version at a store, as its folder would have them.
        sizes: Their sizes.
        start: Ordinal of the first sample of the version, in the split of all versions.
    """

    paths: list[Path]
    sizes: list[ShardSize]
    start: int


class _Fetched(NamedTuple):
    """The shards at a store.

    Attributes:
        shards: The shards of all versions.
        firsts: Ordinals of the first samples of the chunks.
    """

    shards: RemoteShards
    firsts: NDArray[np.int64]


class SplitChunks:
    """The chunks of a split of versions of one root; for one thread at a time.

    Args:
        versions: The versions, in order; at least one.
        split: Name of the split.
        remote: The root at a store that the shards are read from; None for files of this machine,
            or the bucket that the root of the versions follows.

    Raises:
        ConfigError: A version has no such split; or the cache is in use with another bound.
    """

    def __init__(
        self, versions: Sequence[Version], split: str, remote: RemoteRoot | None = None
    ) -> None:
        self._versions, self._split = list(versions), split
        self._remote = root_at_store(versions[0].path) if remote is None else remote
        self._places: dict[Path, _Place] = {}
        start = 0
        for version in versions:
            paths = version.shard_paths(split, sizes=False)
            self._places[version.path] = _Place(paths, version.shard_sizes(split), start)
            start += version.num_samples(split)
        self._decoders: dict[tuple[Path, bool], ChunkDecoder] = {}
        self._compared: Path | None = None
        self._fetched: _Fetched | None = None
        self._way: Way | None = None

    def of(self, version: Version) -> list[ShardChunk]:
        """Return the chunks of a version, in order; all its files are compared with it by size.

        Raises:
            ChecksumError: The index is not the one that was published.
            FormatError: A file has another size, or the index is none.
            NotFoundError: A file is missing.
        """
        place = self._places[version.path]
        if self._remote is None:
            for path, size in zip(place.paths, place.sizes, strict=True):
                size.require(str(path))
        return version.chunks(self._split)

    def begin(self, ordinal: int = 0, end: int | None = None) -> None:
        """Tell that samples are read in order: a store is asked for them ahead.

        Args:
            ordinal: Ordinal of the first one in the split of all versions.
            end: Ordinal behind the last one; None for all.
        """
        if self._remote is None:
            return
        shards, firsts = self._at(self._remote)
        # Chunk i is read in full before chunk i + 1 is asked for.
        first = max(0, int(np.searchsorted(firsts, ordinal, side="right")) - 1)
        last = len(firsts) if end is None else int(np.searchsorted(firsts, end))
        self._way = shards.way
        start = int(firsts[first]) if len(firsts) else 0
        self._way.begin(firsts[:last], np.arange(last), start)

    def framing(self, version: Version, chunk: ShardChunk) -> memoryview:
        """Return the framing of the typed records of a chunk, verified, in new memory.

        Raises:
            FormatError: The chunk is not the one that was published, at a store twice; the error
                names the shard.
            NotFoundError: The shard is missing.
            StorageError: The shard cannot be read.
        """
        info, decoder = chunk.info, self._decoder(version, chunk.info)
        if self._remote is None:
            return self._of_file(version, chunk, lambda file: decoder.read(file, info))
        if not info.num_records:
            return memoryview(b"")  # what is fetched has no such chunks
        fetched = self._at(self._remote)
        return fetched.shards.framing(self._number(fetched, version, chunk), decoder)

    def records(self, version: Version, chunk: ShardChunk) -> list[bytes]:
        """Return the records of a chunk as its shard has them: of TFRecord, the Examples.

        Raises:
            FormatError, NotFoundError, StorageError: As of ``framing``.
        """
        info = chunk.info
        if not isinstance(info, ExampleRun):
            framing = self.framing(version, chunk)
            return [bytes(record) for record in split_records(framing, info.num_records)]
        if self._remote is None:
            return self._of_file(version, chunk, lambda file: _examples(info, _stored(file, info)))
        if not info.num_records:
            return []
        fetched = self._at(self._remote)
        return fetched.shards.decoded(self._number(fetched, version, chunk), _examples)

    def close(self) -> None:
        """End what is fetched ahead; a later read opens the shards again."""
        self._way = None
        if self._fetched is not None:
            self._fetched.shards.close()

    def _at(self, remote: RemoteRoot) -> _Fetched:
        if self._fetched is None:
            shards = remote.shards(self._versions, self._split)
            self._fetched = _Fetched(shards, shards.first_ordinals)
        return self._fetched

    def _number(self, fetched: _Fetched, version: Version, chunk: ShardChunk) -> int:
        """Return the number of a chunk at the store; all before it was read, if it is read on."""
        ordinal = self._places[version.path].start + chunk.first_ordinal
        if self._way is not None:
            self._way.passed(ordinal)
        return int(np.searchsorted(fetched.firsts, ordinal))

    def _decoder(self, version: Version, info: Chunk) -> ChunkDecoder:
        key = version.path, info.codec == EXAMPLES
        if key not in self._decoders:
            self._decoders[key] = decoder_of(version.schema, {info.codec})
        return self._decoders[key]

    def _of_file(self, version: Version, chunk: ShardChunk, read: Callable[[BinaryIO], _T]) -> _T:
        place = self._places[version.path]
        path = place.paths[chunk.shard]
        try:
            if path != self._compared:
                place.sizes[chunk.shard].require(str(path))
                self._compared = path
            with open_plain(path, follow=False) as file:
                return read(file)
        except FormatError as error:
            error.path = error.path or str(path)
            raise


def root_at_store(path: Path) -> RemoteRoot | None:
    """Return the root in a bucket that has the shards of a version; None if its folder has them.

    Args:
        path: The folder of the version.

    Raises:
        ConfigError: A setting of the cache is not valid, or it is in use with another bound.
        FormatError: The mark of the folder that follows the bucket is damaged.
        StorageError: The cache cannot be made.
    """
    if place_in_bucket(path) is None:
        return None
    # The clients of stores are imported where a root is at one.
    from trainfeed.remote import RemoteRoot

    return RemoteRoot.followed(path.absolute().parents[3])


def _stored(file: BinaryIO, run: ExampleRun) -> memoryview:
    file.seek(run.offset_bytes)
    return memoryview(file.read(run.stored_bytes))


def _examples(run: Chunk, stored: memoryview) -> list[bytes]:
    """Return the records of a run, whose checksums are compared."""
    from trainfeed.tfrecord import iter_records

    records = list(iter_records(io.BytesIO(stored), compression=""))
    if len(records) != run.num_records:
        raise FormatError(f"expected {run.num_records} records as in the index, got {len(records)}")
    return records
