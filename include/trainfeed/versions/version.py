"""A published version: opened by its manifest, with which its files are compared when read."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.core import canonical_json
from trainfeed.core.datacenters import local_source
from trainfeed.core.garbage import collector_at_rest
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    FormatError,
    NotFoundError,
    StorageError,
    UnsupportedCodecError,
)
from trainfeed.files import FilePath, ShardSize, is_there, open_plain, read_plain
from trainfeed.samples import Schema
from trainfeed.versions.bucket_objects import BucketVersion, place_in_bucket
from trainfeed.versions.chunk_index import Chunk, chunk_of
from trainfeed.versions.layout import (
    BUILT,
    MANIFEST,
    MANIFEST_DIGEST,
    POSITIONS,
    DatasetFolder,
)
from trainfeed.versions.manifest import Manifest, SplitEntry
from trainfeed.versions.publication import Problem, compare_file, folder_problems, read_arrow
from trainfeed.versions.retire import generation_for_readers

# --- The files beside the shards of a version: their names, and the columns of those in Arrow

CHUNKS: Final = "CHUNKS.arrow"
# Folder of the files that the data set's folder gives every version.
DOCUMENTS: Final = "documents"
STATISTICS: Final = "statistics.json"

CHUNKS_SCHEMA: Final = pa.schema(
    {
        "split": pa.utf8(),
        "shard": pa.int32(),
        "offset_bytes": pa.int64(),
        "stored_bytes": pa.int32(),
        "raw_bytes": pa.int32(),
        "num_records": pa.int32(),
        "crc32": pa.uint32(),
        "codec": pa.int32(),
        "first_ordinal": pa.int64(),
    }
)
POSITIONS_SCHEMA: Final = pa.schema(
    {
        "split": pa.dictionary(pa.int32(), pa.utf8()),
        "source": pa.int32(),
        "offset": pa.int64(),
        "ordinal": pa.int32(),
    }
)


@dataclass(frozen=True)
class ShardChunk:
    """One chunk of a split.

    Attributes:
        shard: Index of the shard within the split.
        info: Place, sizes and checksum of the chunk; a run of Examples if the shards are TFRecord
            files.
        first_ordinal: Ordinal of its first sample within the split.
    """

    shard: int
    info: Chunk
    first_ordinal: int


# --- A published version, opened and verified, for readers, trainings and pages

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
        place = local_source(path)
        folder = place if isinstance(place, Path) else Path(place)
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
            self.require_shards_here()
            for path, size in zip(paths, self.shard_sizes(split), strict=True):
                size.require(str(path))
        return paths

    def require_shards_here(self) -> None:
        """Refuse to read shards from a folder that follows a bucket, which has the shards.

        Raises:
            ConfigError: It is one; the message says how they are read.
        """
        if (place := place_in_bucket(self.path)) is not None:
            raise ConfigError(
                f"expected the shards of {self.name} in {self.path}, they are in"
                f" {place.folder.uri}; nothing was read; open the data set by its name, which reads"
                " them from there: open_dataset(NAME, interval=…, split=…); or make files of them:"
                f" trainfeed file reshard {self.path} FOLDER --shards 1 --prefix NAME"
            )

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
        if (problem := next(self.problems(), None)) is not None:
            raise problem

    def problems(self) -> Iterator[Problem]:
        """Yield all problems, of which ``verify`` raises the first."""
        # A manifest cannot have its own digest, and BUILT.json differs between two attempts.
        own = {MANIFEST, MANIFEST_DIGEST, BUILT}
        try:
            lines = self.manifest.imbalances()
        except (FormatError, NotFoundError) as error:
            # A list that is gone or damaged is a problem of the folder, which is told below.
            lines = [] if self.manifest.source_list is not None else [str(error)]
        for line in lines:
            yield FormatError(
                f"expected a ledger that accounts for every record: {line}; restore the version"
                " from a backup, or build the interval with --rebuild WHY",
                path=str(self.path / MANIFEST),
            )
        if (place := place_in_bucket(self.path)) is None:
            yield from folder_problems(self.path, self.manifest.file_digests(), own)
        else:
            yield from self._problems_there(place)

    def _problems_there(self, place: BucketVersion) -> Iterator[Problem]:
        """Yield the problems of the objects in the bucket, and of their copies here."""
        try:
            if place.promised() != self.manifest_sha256:
                yield ChecksumError(
                    f"expected a manifest with SHA-256 {self.manifest_sha256}, got"
                    f" {place.promised()}",
                    path=(place.folder / MANIFEST).uri,
                )
            yield from place.problems()
        except (FormatError, StorageError) as error:
            yield error
        for name, (num_bytes, sha256) in self.manifest.file_digests().items():
            if is_there(self.path / name):
                yield from compare_file(self.path / name, num_bytes, sha256)

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
                raise FormatError(
                    f"expected the chunk with sample {ordinal} of split {split!r}, in one of"
                    f" {len(shards)} shards, the index has one with sample {chunk.first_ordinal} in"
                    f" shard {chunk.shard}",
                    path=str(self.path / CHUNKS),
                )
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


# --- The positions of a version's samples, read batch by batch in bounded memory

_COLUMNS: Final = ("source", "offset", "ordinal")


class PositionRows(NamedTuple):
    """Positions of neighbouring samples of one split; arrays of shape (n,).

    Attributes:
        sources: Indices into ``sources`` of the manifest, int32.
        offsets: Offsets of the records, int64.
        ordinals: Ordinals of the samples among those of their records, int32.
    """

    sources: NDArray[Any]
    offsets: NDArray[Any]
    ordinals: NDArray[Any]


def has_positions(version: Version) -> bool:
    """Return whether a version was published with the positions of its samples."""
    return POSITIONS in version.manifest.file_digests()


class PositionFile:
    """The file of positions of one version; its digest is compared once, when it is opened.

    A folder that follows a bucket, and lacks the file, gets it.

    Args:
        version: The version.

    Raises:
        NotFoundError: The version was published without positions, or the file is missing.
        ChecksumError: The file is not the one that was published.
        FormatError: The file has other content.
        StorageError: The file system refused or failed.
    """

    def __init__(self, version: Version) -> None:
        self._version = version
        self._path = version.path / POSITIONS
        entry = version.manifest.file_digests().get(POSITIONS)
        if entry is None:
            raise NotFoundError(f"version {version.path} was published without {POSITIONS}")
        if not is_there(self._path) and (place := place_in_bucket(version.path)) is not None:
            # A private copy of a root in a bucket fetches this file when it is read first.
            place.fetch_file(POSITIONS, *entry, self._path)
        for problem in compare_file(self._path, *entry):
            raise problem
        self._batches: dict[str, list[int]] = defaultdict(list)
        counts = dict.fromkeys(version.manifest.splits, 0)
        for number, batch in enumerate(self._read(None)):
            for split in batch["split"].unique().to_pylist():
                self._batches[split].append(number)
                counts[split] = counts.get(split, 0) + batch.num_rows
        expected = {name: split.samples for name, split in version.manifest.splits.items()}
        if counts != expected:
            raise self._damaged(f"samples of the splits {expected}, got {counts}")

    def rows(self, split: str) -> Iterator[PositionRows]:
        """Yield the positions of the samples of a split, in their order; one shard at most."""
        num_sources = len(self._version.manifest.sources)
        for batch in self._read(self._batches.get(split, [])):
            rows = PositionRows(*(batch[name].to_numpy() for name in _COLUMNS))
            if ((rows.sources < 0) | (rows.sources >= num_sources)).any():
                raise self._damaged(f"indices of {num_sources} sources, got others")
            yield rows

    def _read(self, numbers: list[int] | None) -> Iterator[pa.RecordBatch]:
        """Yield batches by their numbers, or all."""
        with open_plain(self._path, follow=False) as file, self._arrow_errors():
            reader = pa.ipc.open_file(file)
            if not reader.schema.equals(POSITIONS_SCHEMA):
                raise self._damaged(f"columns {POSITIONS_SCHEMA.names}, got {reader.schema.names}")
            for number in range(reader.num_record_batches) if numbers is None else numbers:
                batch = reader.get_batch(number)
                # Without validation, an offset outside of a buffer would crash the process.
                batch.validate(full=True)
                if any(column.null_count for column in batch.columns):
                    raise self._damaged("positions without nulls")
                yield batch

    @contextmanager
    def _arrow_errors(self) -> Iterator[None]:
        try:
            yield
        # pyarrow raises some errors about damaged bytes as OSError without errno.
        except (pa.ArrowException, OSError, UnicodeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise self._damaged(f"an Arrow file: {error}") from error

    def _damaged(self, problem: str) -> FormatError:
        return FormatError(
            f"expected {problem}; compare the version: trainfeed verify", path=str(self._path)
        )


def resolve_all(folder: DatasetFolder, generations: Mapping[str, int | None]) -> list[Version]:
    """Open a generation of each interval, without those that have none.

    Args:
        folder: The data set.
        generations: Name of each interval → number of the generation, or None.

    Raises:
        TrainFeedError: As of ``Version.open``.
    """
    # A year of hours has a million values, which all stay.
    with collector_at_rest():
        return [
            Version.resolve(folder, interval, number)
            for interval, number in generations.items()
            if number is not None
        ]
