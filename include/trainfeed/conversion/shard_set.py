"""A set of shards: ordered samples written with sizes and digests, and the set published."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import numpy as np
import xxhash
from numpy.typing import NDArray

from trainfeed.conversion.journal import Journal, refuse_folder
from trainfeed.conversion.record_files import ConvertOptions, RecordSink, open_sink
from trainfeed.conversion.sorting import RunBuilder, SortedParts, iter_sorted, num_samples_of
from trainfeed.conversion.spill import Spill
from trainfeed.core import faults
from trainfeed.core.datacenters import local_target
from trainfeed.core.whole_numbers import whole
from trainfeed.files import (
    DigestedFile,
    TargetFile,
    check_prefix,
    durable_file,
    manifest_name,
    num_shards_of,
    os_errors,
    shard_name,
    sync_folder,
)
from trainfeed.recordio import RecordWriter
from trainfeed.samples import Schema
from trainfeed.versions.shards import Encoding, ShardFormat, ShardInfo, ShardManifest

# --- Writes ordered samples to shard files, and computes the size and digest of each

# Bytes of records handed to a writer at once: their copy stays in the cache of the processor.
_STEP_BYTES: Final = 1 << 20
# A set up to this size stays in the page cache: it is probably read soon, and takes little memory.
_CACHED_BYTES: Final = 256 << 20


class DigestingFile(DigestedFile):
    """A new file in a staging folder, with the digest of its bytes.

    Args:
        path: Path of the file, which must not exist.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._raw = TargetFile(path)
        super().__init__(cast("BinaryIO", self._raw), xxhash.xxh3_128())

    def seal(self, *, keep_cached: bool) -> str:
        """Sync and close the file; return the digest.

        Args:
            keep_cached: Whether the pages of the file stay in the page cache. Otherwise they are
                released, so that the kernel finds free memory for the next file.
        """
        with os_errors(self.name):
            os.fsync(self._raw.fileno())
            if not keep_cached:
                os.posix_fadvise(self._raw.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self.close()
        return self.hexdigest

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if not self.closed:
            self._raw.close()
        super().close()


def write_shards(
    samples: SortedParts,
    folder: Path,
    shards: Sequence[tuple[str, int]],
    *,
    shard_format: ShardFormat,
) -> Iterator[ShardInfo]:
    """Write consecutive shards.

    Args:
        samples: All samples of the shards, from ``iter_sorted``.
        folder: Folder for the files; none of the names exists in it.
        shards: Name and number of samples of each shard.
        shard_format: File format, codec and level.

    Yields:
        Each shard, after it was synced to disk.

    Raises:
        FormatError: A spill file is damaged.
        QuotaExceededError: The disk is full.
        StorageError: A file refused the bytes.
    """
    rows, num_bytes = _iter_rows(samples), 0
    rest: NDArray[Any] | list[bytes] = []
    for name, size in shards:
        file = DigestingFile(folder / name)
        try:
            with open_sink(shard_format, cast("BinaryIO", file)) as sink:
                left = size
                while left:
                    rest = rest if len(rest) > 0 else next(rows)
                    write_records(sink, rest[:left])
                    left, rest = left - len(rest[:left]), rest[left:]
            num_bytes += file.num_bytes
            digest = file.seal(keep_cached=num_bytes <= _CACHED_BYTES)
        finally:
            file.close()
        faults.point("convert.after_shard")
        yield ShardInfo(name, size, file.num_bytes, digest)


def write_records(sink: RecordSink, records: NDArray[Any] | Sequence[bytes]) -> None:
    """Write records: an array of records of one size, or a sequence of any records."""
    if isinstance(records, np.ndarray) and isinstance(sink, RecordWriter):
        sink.write_array(records)
        return
    items = map(np.void.tobytes, records) if isinstance(records, np.ndarray) else records
    for record in items:
        sink.write(record)


def _iter_rows(
    parts: SortedParts,
) -> Iterator[NDArray[Any] | list[bytes]]:
    for samples, start, stop in parts:
        step = samples.num_rows_of(_STEP_BYTES)
        for low in range(start, stop, step):
            yield samples.rows(low, min(low + step, stop))


# --- Publication of a set of shards; its manifest is the announcement for readers


class Staging:
    """A folder in which the shards of one conversion are written.

    Attributes:
        folder: The folder.
    """

    def __init__(self, output: Path, prefix: str, folder: Path) -> None:
        self.folder = folder
        self._journal = _journal(output, prefix)

    def publish(self, manifest: ShardManifest) -> None:
        """Make the shards visible; the staging folder is then gone.

        Raises:
            ConflictError: A folder has the name of a shard or of the manifest.
            StorageError: The file system refused. Either the old set is unchanged, or the new one
                is committed, and the next conversion, or ``finish_publication``, completes it.
        """
        self._journal.publish(self.folder, _ShardSet(manifest))


@contextmanager
def open_staging(output: Path, prefix: str) -> Iterator[Staging]:
    """Make a staging folder; see ``Journal.staging``.

    Raises:
        StorageError: The file system refused.
    """
    with _journal(output, prefix).staging() as folder:
        yield Staging(output, prefix, folder)


def finish_publication(output: str | os.PathLike[str], prefix: str) -> bool:
    """Complete the committed publication of an interrupted conversion; remove dead staging folders.

    This is safe at any time, also while other conversions run.

    Returns:
        Whether a publication was completed.

    Raises:
        StorageError: The file system refused.
    """
    return _journal(Path(local_target(output)).absolute(), prefix).finish()


@dataclass(frozen=True)
class _ShardSet:
    """The shards of a manifest; the manifest is the announcement. See ``Publication``."""

    manifest: ShardManifest

    @property
    def names(self) -> list[str]:
        return [shard.name for shard in self.manifest.shards]

    def owns(self, name: str) -> bool:
        return self.manifest.names(name) or self.manifest.is_foreign(name)

    def save(self, staging: Path) -> None:
        with durable_file(staging / self._manifest_name) as file:
            file.write(self.manifest.dump())

    def prepare(self, output: Path) -> None:
        refuse_folder(output / self._manifest_name)

    def withdraw(self, output: Path) -> None:
        (output / self._manifest_name).unlink(missing_ok=True)
        sync_folder(output)

    def announce(self, commit: Path, output: Path) -> None:
        (commit / self._manifest_name).replace(output / self._manifest_name)

    @property
    def _manifest_name(self) -> str:
        return manifest_name(self.manifest.prefix)


def _journal(output: Path, prefix: str) -> Journal:
    def load(commit: Path) -> _ShardSet | None:
        if not (commit / manifest_name(prefix)).exists():
            return None
        return _ShardSet(ShardManifest.load(commit, prefix))

    return Journal(output, prefix, load)


# --- The target of one conversion, and the steps from spilled samples to a published set


@dataclass(frozen=True)
class ConversionTarget:
    """The files that a conversion writes; checked before anything is read.

    Attributes:
        output: Absolute path of the folder.
        num_shards: Number of files.
        prefix: Prefix of the file names.
        seed: Seed of the shuffle.
        encoding: Encoding of the records.
        schema: Schema of typed samples; otherwise None.
        shard_format: File format, codec and level.

    Raises:
        ConfigError: A number or the prefix is out of range.
    """

    output: Path
    num_shards: int
    prefix: str
    seed: int
    encoding: Encoding
    schema: Schema | None
    shard_format: ShardFormat

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_shards", num_shards_of(self.num_shards))
        object.__setattr__(self, "seed", whole("seed", self.seed))
        check_prefix(self.prefix)

    def shards(self, num_samples: int) -> list[tuple[str, int]]:
        """Return name and number of samples of every shard.

        If the number of samples is not a multiple, the first shards get one sample more.
        """
        each, more = divmod(num_samples, self.num_shards)
        return [
            (shard_name(self.prefix, index, self.num_shards), each + (index < more))
            for index in range(self.num_shards)
        ]

    def manifest(self, shards: tuple[ShardInfo, ...]) -> ShardManifest:
        """Return the manifest of the written files."""
        return ShardManifest(
            self.prefix, self.seed, self.encoding, self.schema, self.shard_format, shards
        )

    def fill(self, read: Callable[[RunBuilder], None], options: ConvertOptions) -> ShardManifest:
        """Run the whole conversion in this process.

        Args:
            read: Function that adds all records to the builder.
            options: Memory, folder and progress function.

        Returns:
            The manifest of the published set.
        """
        with open_staging(self.output, self.prefix) as staging:
            work = (
                staging.folder if options.work_dir is None else Path(local_target(options.work_dir))
            )
            with Spill.anonymous(work) as spill:
                runs = RunBuilder(spill, self.seed, 0, options)
                read(runs)
                runs.flush()
                # The memory of the builder is needed for writing.
                del runs
                faults.point("convert.after_read")
                manifest = self.manifest(tuple(self._write(spill, staging.folder, options)))
            staging.publish(manifest)
        return manifest

    def _write(self, spill: Spill, folder: Path, options: ConvertOptions) -> Iterator[ShardInfo]:
        num_samples, num_written = num_samples_of([spill]), 0
        samples = iter_sorted(
            [spill], 0, num_samples, memory_bytes=options.memory_bytes, consume=True
        )
        wanted = self.shards(num_samples)
        shards = write_shards(samples, folder, wanted, shard_format=self.shard_format)
        for shard in shards:
            num_written += shard.num_records
            if options.on_progress is not None:
                options.on_progress(num_samples, num_written)
            yield shard
