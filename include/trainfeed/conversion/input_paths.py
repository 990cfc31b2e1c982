"""What paths of inputs stand for: files, folders of versions and sets, and shards in a bucket.

The folder that follows a bucket has all of a version but its shards. The path of one is a name
here: its records come from the bucket, chunk by chunk, and are those that a file would have.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from trainfeed.core.datacenters import local_source
from trainfeed.errors import ConfigError, FormatError
from trainfeed.files import (
    FileMark,
    FilePath,
    expand_paths,
    manifest_name,
    mark_of,
    matching,
    os_errors,
)
from trainfeed.readers.split_chunks import SplitChunks
from trainfeed.samples import Schema, TypedCodec
from trainfeed.tfrecord import ExampleCodec
from trainfeed.versions import Version
from trainfeed.versions.bucket_objects import place_in_bucket
from trainfeed.versions.chunk_index import EXAMPLES
from trainfeed.versions.layout import MANIFEST
from trainfeed.versions.shards import FileFormat, ShardManifest, prefixes_in
from trainfeed.versions.version import ShardChunk

# --- Files and folders that paths, lists and globs stand for


def paths_of(inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the files that paths, lists with commas, globs and folders stand for, in order.

    Shards of a version in a bucket have the paths that they would have in the folder that follows
    the bucket, where no such files are.

    Raises:
        NotFoundError: A part matches no file; the message names the part.
        ConfigError: A folder is not a published version, and does not hold exactly one set of
            shards.
    """
    return [path for each in matches_of(inputs) for path in files_at(each)]


def matches_of(inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the files and folders that paths, lists with commas, and globs stand for, in order.

    Raises:
        NotFoundError: A part matches nothing; the message names the part.
    """
    parts = [inputs] if isinstance(inputs, str | os.PathLike) else inputs
    found = [path for part in parts for path in _matches(part)]
    return found or [Path(path) for path in expand_paths([])]


def _matches(part: str | os.PathLike[str]) -> Iterator[Path]:
    # A comma belongs to the name of a path object.
    for each in part.split(",") if isinstance(part, str) else [part]:
        yield from _in_buckets(os.fspath(each)) or map(Path, expand_paths(each, counts=True))


def _in_buckets(pattern: str) -> list[Path]:
    """Return the shards in buckets that a path or a glob names, sorted; none of other files."""
    folder, mask = os.path.split(local_source(pattern))
    found = (_shards_in(Path(each).absolute()) for each in matching(folder or os.curdir))
    return [
        shards[name].path for shards in found for name in sorted(shards) if fnmatchcase(name, mask)
    ]


def files_at(path: Path) -> list[Path]:
    """Return the file at a path, or the shards of the version or set whose folder it is.

    Raises:
        ConfigError: The folder is of neither.
    """
    return _shards_of(path) if path.is_dir() else [path]


def _shards_of(folder: Path) -> list[Path]:
    with os_errors(folder):
        is_version = (folder / MANIFEST).is_file()
    if is_version:
        version = Version.open(folder)
        is_here = place_in_bucket(folder) is None
        paths = (version.shard_paths(split, sizes=is_here) for split in version.manifest.splits)
        return list(chain.from_iterable(paths))
    found = prefixes_in(folder)
    if len(found) != 1:
        raise ConfigError(
            f"expected {folder} to be a published version, or to hold one set of shards with its"
            f" manifest, got {len(found)}; name the files"
        )
    manifest = ShardManifest.load(folder, found[0])
    if problems := manifest.problems(folder):
        raise FormatError("; ".join(problems[:3]), path=str(folder / manifest_name(found[0])))
    return [folder / shard.name for shard in manifest.shards]


# --- Shards that are in a bucket


class _Split:
    """A split of a version in a bucket; a pass of one thread over a shard has its chunks alone."""

    def __init__(self, version: Version, name: str) -> None:
        self.version, self._name = version, name
        # Closed by the passes before. A new object would read the index of the whole split again.
        self._idle: list[SplitChunks] = []

    @contextmanager
    def opened(self) -> Iterator[SplitChunks]:
        """Open it for a pass; passes of other threads do not end it."""
        try:
            chunks = self._idle.pop()
        except IndexError:
            chunks = SplitChunks([self.version], self._name)
        with closing(chunks):
            yield chunks
        self._idle.append(chunks)


@dataclass(frozen=True)
class BucketShard:
    """A shard of a version in a bucket.

    Attributes:
        path: Where it would be in the folder of its version.
        num_bytes: Its size.
        split: Its split.
        chunks: Its chunks.
    """

    path: Path
    num_bytes: int
    split: _Split
    chunks: tuple[ShardChunk, ...]

    @property
    def version(self) -> Version:
        """Its version."""
        return self.split.version

    @property
    def container(self) -> FileFormat:
        """RecordIO or TFRecord; an empty shard counts as RecordIO, as an empty file does."""
        is_tfrecord = any(chunk.info.codec == EXAMPLES for chunk in self.chunks)
        return FileFormat.TFRECORD if is_tfrecord else FileFormat.RECORDIO

    @property
    def num_records(self) -> int:
        """Number of its records."""
        return sum(chunk.info.num_records for chunk in self.chunks)

    def records(self) -> Iterator[bytes]:
        """Yield its records, unchanged.

        Raises:
            ConfigError: A setting of the cache is not valid, or it is in use with another bound.
            FormatError: A chunk is not the one that was published, twice.
            NotFoundError: The shard is not in the bucket.
            StorageError: The store, or the disk of the cache, refused or failed.
        """
        with self._opened() as opened:
            for chunk in self.chunks:
                yield from opened.records(self.version, chunk)

    def blocks(self, schema: Schema) -> Iterator[Mapping[str, Any]]:
        """Yield the samples of each chunk as arrays, by a schema of fixed size.

        Raises:
            ConfigError, FormatError, NotFoundError, StorageError: As of ``records``.
        """
        is_tfrecord = self.container is FileFormat.TFRECORD
        examples, typed = ExampleCodec(schema) if is_tfrecord else None, TypedCodec(schema)
        with self._opened() as opened:
            for chunk in self.chunks:
                if examples is not None:
                    yield examples.decode_records(opened.records(self.version, chunk))
                else:
                    framing = opened.framing(self.version, chunk)
                    yield typed.decode_columns(framing, chunk.info.num_records)

    @contextmanager
    def _opened(self) -> Iterator[SplitChunks]:
        with self.split.opened() as opened:
            if self.chunks:
                first, last = self.chunks[0], self.chunks[-1]
                opened.begin(first.first_ordinal, last.first_ordinal + last.info.num_records)
            yield opened


def shard_in_bucket(path: FilePath) -> BucketShard | None:
    """Return the shard of a version in a bucket that a path names; None for other paths.

    Raises:
        ChecksumError, FormatError: The manifest or the index of its version is damaged.
        StorageError: The file system refused or failed.
    """
    place = Path(local_source(path)).absolute()
    return _shards_in(place.parent).get(place.name)


def require_file(path: FilePath) -> None:
    """Refuse the path of a shard that is in a bucket.

    Raises:
        ConfigError: It is one; the message says how its samples are read.
    """
    if (shard := shard_in_bucket(path)) is not None:
        shard.version.require_shards_here()


def _shards_in(folder: Path) -> Mapping[str, BucketShard]:
    """Return the shards of the version of a folder by name, if a bucket has them."""
    if place_in_bucket(folder) is None or (mark := mark_of(folder / MANIFEST)) is None:
        return {}
    return _known(folder, mark)


@lru_cache(maxsize=4)
def _known(folder: Path, _mark: FileMark) -> Mapping[str, BucketShard]:
    """Return all shards of a version; kept, because they are asked for one by one."""
    version, found = Version.open(folder), dict[str, BucketShard]()
    for name, entry in version.manifest.splits.items():
        split, chunks = _Split(version, name), defaultdict[int, list[ShardChunk]](list)
        for chunk in version.chunks(name):
            chunks[chunk.shard].append(chunk)
        for number, shard in enumerate(entry.shards):
            path, own = folder / shard.name, tuple(chunks[number])
            found[shard.name] = BucketShard(path, shard.bytes, split, own)
    return found
