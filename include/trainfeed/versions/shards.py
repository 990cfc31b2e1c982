"""Sets of shards that conversions write, with the manifest that describes each shard."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import xxhash

from trainfeed.core import canonical_json
from trainfeed.core.canonical_json import require_intact, seal
from trainfeed.core.datacenters import local_source
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.files import (
    FileMark,
    FilePath,
    ShardName,
    listed,
    manifest_name,
    mark_of,
    open_plain,
    read_plain,
    shard_name,
)
from trainfeed.files.stores.posix import map_errors
from trainfeed.samples import Schema

# --- How the records of a shard are stored, as recorded in the manifest of its set


class FileFormat(StrEnum):
    """The container of records."""

    RECORDIO = "recordio"
    TFRECORD = "tfrecord"


@dataclass(frozen=True)
class ShardFormat:
    """How the records of a shard are stored; part of the manifest.

    Attributes:
        file_format: The container.
        codec: Name of the compression, in lower case.
        level: Level of the compression, None for the default.
        max_chunk_bytes: Size limit of RecordIO's chunks; 0 for TFRecord, which has none.
    """

    file_format: FileFormat
    codec: str
    level: int | None
    max_chunk_bytes: int

    @classmethod
    def from_json(cls, value: Any) -> ShardFormat:
        """Read the JSON of ``to_json``; KeyError, TypeError or ValueError for other values."""
        return cls(
            FileFormat(value["file_format"]),
            str(value["codec"]),
            value["level"],
            int(value["max_chunk_bytes"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the format for a manifest."""
        return {
            "file_format": str(self.file_format),
            "codec": self.codec,
            "level": self.level,
            "max_chunk_bytes": self.max_chunk_bytes,
        }


# --- The entry of a shard in a manifest, and the comparison of its file with it

_BLOCK_BYTES: Final = 1 << 20


class ShardInfo(NamedTuple):
    """The entry of a shard in a manifest.

    Attributes:
        name: File name.
        num_records: Number of records.
        num_bytes: Size of the file.
        digest: XXH3-128 of the file, 32 hex digits.
    """

    name: str
    num_records: int
    num_bytes: int
    digest: str

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON for a manifest."""
        return {
            "name": self.name,
            "records": self.num_records,
            "bytes": self.num_bytes,
            "xxh3_128": self.digest,
        }

    @classmethod
    def from_json(cls, value: Any) -> ShardInfo:
        """Read the JSON of ``to_json``.

        Raises:
            FormatError: ``value`` is no such entry.
        """
        try:
            info = cls(value["name"], value["records"], value["bytes"], value["xxh3_128"])
        except (KeyError, TypeError) as error:
            raise FormatError(f"expected the account of a shard, got {value!r}") from error
        texts, numbers = (info.name, info.digest), (info.num_records, info.num_bytes)
        if not all(type(text) is str for text in texts) or not all(
            type(number) is int and number >= 0 for number in numbers
        ):
            raise FormatError(f"expected the account of a shard, got {value!r}")
        return info

    def problem(self, folder: FilePath, *, deep: bool) -> str | None:
        """Compare the file in a folder with the entry; return the problem, or None.

        Args:
            folder: Folder of the shard.
            deep: Whether to read the file and compare its digest, too.
        """
        path = Path(local_source(folder), self.name)
        if not path.is_file():
            return f"{self.name}: missing"
        with map_errors(path):
            num_bytes = path.stat().st_size
        if num_bytes != self.num_bytes:
            return f"{self.name}: expected {self.num_bytes} bytes, got {num_bytes}"
        if deep and (digest := _digest_of(path)) != self.digest:
            return f"{self.name}: expected digest {self.digest}, got {digest}"
        return None


def _digest_of(path: Path) -> str:
    digest = xxhash.xxh3_128()
    buffer = memoryview(bytearray(_BLOCK_BYTES))
    with open_plain(path, follow=True, buffering=0) as file:
        while num_bytes := os.readv(file.fileno(), [buffer]):
            digest.update(buffer[:num_bytes])
    return digest.hexdigest()


# --- The manifest of a set of shards: ``<prefix>.shards.json`` beside them, written last

_FORMAT: Final = "trainfeed-shards/1"
_KEYS: Final = frozenset(
    {
        "format",
        "prefix",
        "seed",
        "samples",
        "encoding",
        "schema",
        "files",
        "shards",
        "num_shards",
        "digest",
    }
)


class Encoding(StrEnum):
    """The content of the records of a set.

    TYPED are samples of a schema, VALUE are samples that carry their own types, and BYTES are
    records of unknown content.
    """

    TYPED = "typed"
    VALUE = "value"
    BYTES = "bytes"


@dataclass(frozen=True)
class ShardManifest:
    """The result of a conversion.

    Attributes:
        prefix: Start of the shards' names.
        seed: Seed of the shuffle.
        encoding: Content of the records.
        schema: Schema of typed samples, else None.
        shard_format: How records are stored.
        shards: The files, in order.
    """

    prefix: str
    seed: int
    encoding: Encoding
    schema: Schema | None
    shard_format: ShardFormat
    shards: tuple[ShardInfo, ...]

    @property
    def num_samples(self) -> int:
        """Number of samples of all shards."""
        return sum(shard.num_records for shard in self.shards)

    @property
    def num_bytes(self) -> int:
        """Size of all shards together."""
        return sum(shard.num_bytes for shard in self.shards)

    def dump(self) -> bytes:
        """Return the content of the file: one line per shard; the last line has the digest."""
        head = {
            "format": _FORMAT,
            "prefix": self.prefix,
            "num_shards": len(self.shards),
            "samples": self.num_samples,
            "seed": self.seed,
            "encoding": str(self.encoding),
            "schema": None if self.schema is None else self.schema.to_json(),
            "files": self.shard_format.to_json(),
        }
        # One line per shard. ``[:-2]`` cuts the end of the head's object, where the list goes on.
        lines = [json.dumps(shard.to_json()) for shard in self.shards]
        text = json.dumps(head, indent=1)[:-2] + ',\n "shards": [\n'
        return seal((text + ",\n".join(f"  {line}" for line in lines) + "\n ]\n}\n").encode())

    @classmethod
    def load(cls, folder: FilePath, prefix: str) -> ShardManifest:
        """Read the manifest of the set ``prefix`` in a folder.

        Raises:
            NotFoundError: There is no manifest: the set is not complete, or no conversion made it.
            ChecksumError: The manifest was changed.
            FormatError: The file is no manifest of shards.
        """
        path = Path(local_source(folder)) / manifest_name(prefix)
        try:
            data = read_plain(path, follow=False, max_bytes=canonical_json.MAX_BYTES)
        except NotFoundError as error:
            raise NotFoundError(
                f"{path} is not there: no conversion has completed the set {prefix!r} in this"
                " folder; convert again, which also finishes an interrupted publication"
            ) from error
        value = canonical_json.loads(data, path=str(path))
        require_intact(data, path=str(path))
        try:
            manifest = cls._from_json(value)
        except FormatError as error:
            error.path = str(path)
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"expected a manifest of shards: {error}", path=str(path)) from error
        if manifest.prefix != prefix:
            raise FormatError(
                f"expected the manifest of {prefix!r}, got that of {manifest.prefix!r}: the set was"
                " renamed; give its files their names back, or read them by a schema",
                path=str(path),
            )
        return manifest

    @classmethod
    def _from_json(cls, value: Mapping[str, Any]) -> ShardManifest:
        if value.keys() != _KEYS or value["format"] != _FORMAT:
            raise FormatError(f"expected a manifest of format {_FORMAT}")
        schema = value["schema"]
        manifest = cls(
            prefix=str(value["prefix"]),
            seed=int(value["seed"]),
            encoding=Encoding(value["encoding"]),
            schema=None if schema is None else Schema.from_json(schema),
            shard_format=ShardFormat.from_json(value["files"]),
            shards=tuple(map(ShardInfo.from_json, value["shards"])),
        )
        if (manifest.schema is not None) != (manifest.encoding is Encoding.TYPED):
            raise FormatError("a set has a schema if it is typed, and only then")
        names = [shard.name for shard in manifest.shards]
        count = len(names)
        if names != [shard_name(manifest.prefix, i, count) for i in range(count)] or not names:
            raise FormatError(f"expected the names of all shards in order, got {names[:3]} …")
        if (value["samples"], value["num_shards"]) != (manifest.num_samples, count):
            raise FormatError("the numbers of samples or shards contradict the shards' accounts")
        return manifest

    def problems(self, folder: FilePath, *, deep: bool = False) -> list[str]:
        """Compare the files of a folder with the manifest.

        Args:
            folder: Folder of the set.
            deep: Whether to read all files and compare their digests; else only names and sizes.

        Returns:
            The problems, each with the file's name: a shard that is missing, has another size or
            digest, or has a name of this set without belonging to it.
        """
        folder = Path(local_source(folder))
        with map_errors(folder):
            found = {path.name: path for path in sorted(folder.iterdir())}
        problems = [
            f"{name}: a foreign shard, not of this set of {len(self.shards)}"
            for name in found
            if self.is_foreign(name)
        ]
        for shard in self.shards:
            problem = shard.problem(folder, deep=deep)
            problems += [problem] if problem else []
        return problems

    def names(self, file_name: str) -> bool:
        """Return whether one of the shards has this file name."""
        return file_name in self._by_name

    def is_foreign(self, file_name: str) -> bool:
        """Return whether a file name belongs to another set with the same prefix."""
        parsed = ShardName.parse(file_name)
        return parsed is not None and parsed.prefix == self.prefix and not self.names(file_name)

    @cached_property
    def _by_name(self) -> dict[str, ShardInfo]:
        return {shard.name: shard for shard in self.shards}


def manifests_of(paths: Iterable[FilePath]) -> Iterator[ShardManifest | None]:
    """Yield, for each file, the manifest that has it as a shard, or None.

    A manifest is read once for the files of its set, also in several calls, while it is unchanged.

    Raises:
        ChecksumError: A manifest was changed.
        FormatError: A file with the name of a manifest is none.
    """
    known: dict[tuple[Path, str], ShardManifest | None] = {}
    for path in map(Path, map(local_source, paths)):
        name = ShardName.parse(path.name)
        if name is None:
            yield None
            continue
        key = path.parent, name.prefix
        if key not in known:
            known = {key: _manifest_if_any(*key)}
        found = known[key]
        yield found if found is not None and found.names(path.name) else None


def prefixes_in(folder: FilePath) -> list[str]:
    """Return the prefixes of the sets whose manifests are in a folder, sorted.

    Raises:
        StorageError: The folder cannot be listed.
    """
    found = listed(folder, manifest_name("*"))
    return [path.name.removesuffix(manifest_name("")) for path in found]


def _manifest_if_any(folder: Path, prefix: str) -> ShardManifest | None:
    mark = mark_of(folder / manifest_name(prefix))
    try:
        return None if mark is None else _loaded(folder, prefix, mark)
    except NotFoundError:
        return None


@lru_cache(maxsize=4)
def _loaded(folder: Path, prefix: str, _mark: FileMark) -> ShardManifest:
    """Return a manifest; kept, because the files of a set are often asked for one by one."""
    return ShardManifest.load(folder, prefix)
