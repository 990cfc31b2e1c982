"""The manifest of a set of shards: ``<prefix>.shards.json`` beside them, written last.

The manifest has everything that a reader must know, and shows problems that a listing cannot: a
shard that is missing, cut, of another conversion, or not of the set at all. It has no time and no
path, so that equal conversions have equal manifests.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.canonical_json import require_intact, seal
from trainfeed.datacenters import local_source
from trainfeed.dataset.shards._shard_format import ShardFormat
from trainfeed.dataset.shards._shard_info import ShardInfo
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import (
    FileMark,
    FilePath,
    ShardName,
    listed,
    manifest_name,
    mark_of,
    read_plain,
    shard_name,
)
from trainfeed.samples import Schema
from trainfeed.storage.posix import map_errors

__all__ = ["Encoding", "ShardManifest", "manifests_of", "prefixes_in"]

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
