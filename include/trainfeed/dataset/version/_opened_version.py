"""A published version, opened and verified, for readers, trainings and pages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from trainfeed import canonical_json
from trainfeed.datacenters import local_source
from trainfeed.dataset._intact import Problem, read_arrow
from trainfeed.dataset.chunks import Chunk, chunk_of
from trainfeed.dataset.layout import MANIFEST, MANIFEST_DIGEST, DatasetFolder
from trainfeed.dataset.ledger import Ledger
from trainfeed.dataset.manifest import Manifest, SplitEntry
from trainfeed.dataset.publication import folder_problems
from trainfeed.dataset.retirements import generation_for_readers
from trainfeed.dataset.version._version_parts import (
    BUILT,
    CHUNKS,
    CHUNKS_SCHEMA,
    DOCUMENTS,
    POSITIONS,
    POSITIONS_SCHEMA,
    STATISTICS,
    ShardChunk,
)
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    FormatError,
    NotFoundError,
    UnsupportedCodecError,
)
from trainfeed.paths import FilePath, ShardSize, read_plain
from trainfeed.samples import Schema

__all__ = ["Version"]

_CHUNK_COLUMNS: Final = ("offset_bytes", "stored_bytes", "raw_bytes", "num_records", "crc32")


@dataclass(frozen=True)
class Version:
    """One immutable version of a data set.

    Attributes:
        path: Folder of the version.
        manifest: The manifest; its digest was verified.
        manifest_sha256: SHA-256 of the manifest, in hex.
    """

    path: Path
    manifest: Manifest
    manifest_sha256: str

    @classmethod
    def open(cls, path: FilePath) -> Version:
        """Open the version in folder ``path``.

        Raises:
            NotFoundError: No version is there.
            ChecksumError: The manifest is not the one that was published.
            FormatError: The file is no manifest, or one of another place (``Manifest.read``).
            StorageError: The file system refused or failed.
        """
        folder = Path(local_source(path))
        return cls(folder, *Manifest.read(folder))

    @classmethod
    def resolve(
        cls, folder: DatasetFolder, interval: str, generation: int | None = None
    ) -> Version:
        """Open a generation of an interval, by default the one for readers."""
        number = generation_for_readers(folder, interval) if generation is None else generation
        return cls.open(folder.version(interval, number))

    @property
    def name(self) -> str:
        """``<interval>/<generation>``, as in ``2013-01-01/g0001``."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def schema(self) -> Schema:
        """The schema of the samples."""
        return Schema.from_json(self.manifest.fields)

    def shard_paths(self, split: str, *, sizes: bool = True) -> list[Path]:
        """Return the shard files of a split in order.

        Args:
            split: Name of the split.
            sizes: Whether to compare the size of every file with the manifest.

        Raises:
            ConfigError: The version has no such split.
            TruncatedError: A file is shorter than the manifest says.
            FormatError: A file is longer.
            NotFoundError: A file is missing.
        """
        paths = [self.path / shard.name for shard in self._split(split).shards]
        if sizes:
            for path, size in zip(paths, self.shard_sizes(split), strict=True):
                size.require(str(path))
        return paths

    def shard_sizes(self, split: str) -> list[ShardSize]:
        """Return the sizes of the shard files of a split in order, as the manifest states them."""
        manifest = str(self.path / MANIFEST)
        return [ShardSize(shard.bytes, manifest) for shard in self._split(split).shards]

    def num_samples(self, split: str) -> int:
        """Return the number of samples of a split."""
        return self._split(split).samples

    def chunks(self, split: str) -> list[ShardChunk]:
        """Return the chunk index of a split, in order of its samples.

        Raises:
            ChecksumError: The index is not the one that was published.
            FormatError: The file is no index, or contradicts the manifest.
            NotFoundError: The index is missing.
        """
        table = self._read_arrow(CHUNKS, CHUNKS_SCHEMA)
        rows = table.filter(pc.equal(table["split"], split)).to_pylist()
        chunks = [
            ShardChunk(
                row["shard"],
                self._chunk({name: row[name] for name in _CHUNK_COLUMNS}, row["codec"]),
                row["first_ordinal"],
            )
            for row in rows
        ]
        self._check_index(split, chunks)
        return chunks

    def positions(self) -> pa.Table:
        """Return the source position of every sample, in split and shard order.

        Returns:
            A table of ``POSITIONS_SCHEMA``, one row per sample.

        Raises:
            ChecksumError: The file is not the one that was published.
            FormatError: The file has other content.
            NotFoundError: The file is missing.
        """
        return self._read_arrow(POSITIONS, POSITIONS_SCHEMA)

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of the samples: split → field → name and value.

        Raises:
            ChecksumError: The file is not the one that was published.
            FormatError: The file has other content.
            NotFoundError: The file is missing.
        """
        path = str(self.path / STATISTICS)
        found: dict[str, Any] = canonical_json.loads(self._read_bytes(STATISTICS), path=path)
        return found

    def documents(self) -> list[str]:
        """Return the names of the published documents, sorted."""
        names = self.manifest.file_digests()
        return sorted(name.partition("/")[2] for name in names if name.startswith(f"{DOCUMENTS}/"))

    def document(self, name: str) -> bytes:
        """Return a document: a file that the data set's folder has given to the version.

        Raises:
            ChecksumError: The file is not the one that was published.
            NotFoundError: The version was published without it, or the file is missing.
            StorageError: The file cannot be read.
        """
        return self._read_bytes(f"{DOCUMENTS}/{name}")

    def verify(self) -> None:
        """Compare the folder with the manifest: exact listing, size and digest of every file.

        The account of the records in the manifest must balance, too.

        Raises:
            ChecksumError: A file is not the one that was published; the message names it.
            FormatError: A file is missing, foreign, or no plain file; the message names it. Or the
                ledger does not balance.
            StorageError: A file cannot be read; the message names it.
        """
        for problem in self.problems():
            raise problem

    def problems(self) -> Iterator[Problem]:
        """Yield all problems, of which ``verify`` raises the first."""
        # A manifest cannot have its own digest, and BUILT.json differs between two attempts.
        own = {MANIFEST, MANIFEST_DIGEST, BUILT}
        try:
            lines = Ledger.from_json(self.manifest.ledger).imbalances()
        except FormatError as error:
            lines = [str(error)]
        for line in lines:
            yield FormatError(
                f"expected a ledger that accounts for every record: {line}; restore the version"
                " from a backup, or build the interval with --rebuild WHY",
                path=str(self.path / MANIFEST),
            )
        yield from folder_problems(self.path, self.manifest.file_digests(), own)

    def _split(self, split: str) -> SplitEntry:
        try:
            return self.manifest.splits[split]
        except KeyError:
            known = ", ".join(sorted(self.manifest.splits))
            raise ConfigError(f"{self.path} has no split {split!r}, only {known}") from None

    def _check_index(self, split: str, chunks: list[ShardChunk]) -> None:
        # Ordinals of a split continue over its shards, so chunks must follow without a hole.
        ordinal = 0
        shards = range(len(self._split(split).shards))
        for chunk in chunks:
            if chunk.first_ordinal != ordinal or chunk.shard not in shards:
                break
            ordinal += chunk.info.num_records
        if ordinal != self.num_samples(split):
            raise FormatError(
                f"the index accounts for {ordinal} samples of split {split!r}, the manifest for"
                f" {self.num_samples(split)}",
                path=str(self.path / CHUNKS),
            )

    def _chunk(self, place: dict[str, int], number: int) -> Chunk:
        try:
            return chunk_of(number, place)
        except ValueError as error:
            raise UnsupportedCodecError(
                f"expected a known codec, got {number}", path=str(self.path / CHUNKS)
            ) from error

    def _read_arrow(self, name: str, schema: pa.Schema) -> pa.Table:
        return read_arrow(self.path / name, schema, *self._entry(name))

    def _read_bytes(self, name: str) -> bytes:
        path, (_, expected) = self.path / name, self._entry(name)
        data = read_plain(path, follow=False, max_bytes=canonical_json.MAX_BYTES)
        if (actual := hashlib.sha256(data).hexdigest()) != expected:
            raise ChecksumError(f"expected SHA-256 {expected}, got {actual}", path=str(path))
        return data

    def _entry(self, name: str) -> tuple[int, str]:
        entry = self.manifest.file_digests().get(name)
        if entry is None:
            raise NotFoundError(f"version {self.path} was published without {name}")
        return entry
