"""All records of one file, or of several, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

from trainfeed.damage import DamageMode, DamagePolicy, DamageReport
from trainfeed.errors import ConfigError
from trainfeed.paths import FilePath, SetWatch, expand_paths, path_of
from trainfeed.tfrecord._byte_files import open_file
from trainfeed.tfrecord._record_walk import ReadOptions, iter_runs
from trainfeed.tfrecord._tfrecord_format import MAX_RECORD_BYTES, Compression, compression_named

__all__ = ["TFRecordReader", "iter_records"]

_STRICT: Final = DamagePolicy.strict()


class TFRecordReader:
    """The records of files, in order; can be iterated again.

    Without ``on_damage`` the first damage of a file ends the iteration with an error. With another
    policy, a compressed file is still lost from its first damage on, which counts as one range.

    Args:
        paths: A path, several paths separated by commas, or a list of these. Each part of a text
            may be a glob, whose matches are sorted by name; path objects are taken literally.
        compression: ``""``, ``"GZIP"`` or ``"ZLIB"``; None recognises it for each file.
        max_record_bytes: Limit for the length of a record; a longer one is refused.
        on_damage: Policy for damaged records; None is strict. Its limits count over all files.
            A shard that is shorter or longer than its manifest says is damaged at its end: records
            up to the smaller size are read, and the rest is one dropped range.

    Attributes:
        paths: The files.
        report: Account of the records that the latest iteration has dropped so far.
        starts: For each file that the latest iteration has opened so far, the number of records
            before it.

    Raises:
        NotFoundError: A part matches no file (the message names the part), or a shard of a glob is
            missing.
        ConflictError: The files are of several sets of shards.
        FormatError: A shard has another size than its manifest says, and the policy is strict.
        FileReplacedError: The set of shards is being replaced. Also raised by a pass, if the set
            was converted again after this object was made.
        ConfigError: The compression is unknown.
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath],
        *,
        compression: Compression | str | None = None,
        max_record_bytes: int = MAX_RECORD_BYTES,
        on_damage: DamagePolicy | None = None,
    ) -> None:
        self.paths = expand_paths(paths, counts=True)
        strict = on_damage in (None, DamagePolicy.strict())
        self._sets = SetWatch(self.paths, sizes=strict)
        self.report = DamageReport()
        self.starts: list[int] = []
        self._options = ReadOptions(
            compression=None if compression is None else compression_named(compression),
            max_record_bytes=max_record_bytes,
            on_damage=on_damage or DamagePolicy.strict(),
        )

    def __iter__(self) -> Iterator[bytes]:
        """Read all files.

        Raises:
            TruncatedError: A file ends inside a record.
            ChecksumError: A length or a record is damaged.
            FormatError: A record is longer than allowed, or a file cannot be decompressed.
        """
        for records in self._iter_runs():
            yield from records

    def iter_batches(self, num_records: int) -> Iterator[list[bytes]]:
        """Read all files in lists of ``num_records``, the last one shorter.

        This is faster than record by record. Batches continue across files.

        Raises:
            TruncatedError: A file ends inside a record.
            ChecksumError: A length or a record is damaged.
            FormatError: A record is longer than allowed, or a file cannot be decompressed. All
                three errors come after every whole batch of the records before.
        """
        if num_records < 1:
            raise ValueError(f"expected batches of at least 1 record, got {num_records}")
        batch: list[bytes] = []
        for records in self._iter_runs():
            batch += records
            if len(batch) >= num_records:
                beyond = len(batch) % num_records
                for start in range(0, len(batch) - beyond, num_records):
                    yield batch[start : start + num_records]
                del batch[: len(batch) - beyond]
        if batch:
            yield batch

    def _iter_runs(self) -> Iterator[list[bytes]]:
        report = self.report = DamageReport()
        starts: list[int] = []
        num_records, self.starts = 0, starts
        for path in self.paths:
            starts.append(num_records)
            size = self._sets.size_of(path)
            with open_file(path) as opened:
                self._sets.require_unchanged()
                for records in iter_runs(opened, path, self._options, report, size):
                    num_records += len(records)
                    yield records


def iter_records(
    file: FilePath | BinaryIO,
    *,
    compression: Compression | str | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
    on_damage: DamagePolicy = _STRICT,
    report: DamageReport | None = None,
) -> Iterator[bytes]:
    """Read a file record by record; memory is needed for the longest record.

    Args:
        file: A path, or a binary file, which is read from its position on and stays open; it must
            be seekable unless ``on_damage`` is strict.
        compression: ``""``, ``"GZIP"`` or ``"ZLIB"``; None recognises it.
        max_record_bytes: Limit for the length of a record; a longer one is refused.
        on_damage: Policy for damaged records; see ``TFRecordReader``.
        report: Account of dropped records; needed unless ``on_damage`` is strict. Earlier entries
            count towards the limits of the policy.

    Yields:
        Each record, with verified checksum.

    Raises:
        TruncatedError: The file ends inside a record.
        ChecksumError: A length or a record is damaged.
        FormatError: A record is longer than allowed, or the file cannot be decompressed. All three
            errors have the file and the offset of the record, in decompressed bytes.
        ConfigError: ``on_damage`` is not strict, and there is no ``report``.
    """
    if report is None:
        if on_damage.mode is not DamageMode.STRICT:
            raise ConfigError("expected a report for what is dropped, got None; pass report=")
        report = DamageReport()
    options = ReadOptions(
        compression=None if compression is None else compression_named(compression),
        max_record_bytes=max_record_bytes,
        on_damage=on_damage,
    )
    with open_file(file) as opened:
        for records in iter_runs(opened, path_of(file), options, report):
            yield from records
