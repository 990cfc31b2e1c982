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
    """The records of files, one after another; can be iterated again.

    Strict unless told otherwise: the first thing that is wrong with a file ends the iteration with
    an error. Under another policy a compressed file is still lost from its first damage on, and
    counted as one range.

    Args:
        paths: Files, or several separated by commas, or a list of such. Each part of a text may be
            a glob, whose matches are sorted by name; path objects are taken as they are.
        compression: ``""``, ``"GZIP"`` or ``"ZLIB"``; None finds out for each file.
        max_record_bytes: Refuse a longer record.
        on_damage: What to do about damage, None for strict. What it lets pass is counted over all
            files.

    Attributes:
        paths: The files.
        report: What the iteration that was started last has dropped so far.

    Raises:
        NotFoundError: A part matches no file; names the part. Or a shard of a glob is missing.
        ConflictError: The files are of several sets of shards.
        FileReplacedError: Their set is being replaced; also raised by a pass, when it was converted
            again since the files were looked up.
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
        self._sets = SetWatch(self.paths)
        self.report = DamageReport()
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
            FormatError: A record is longer than allowed, or a file does not inflate.
        """
        for records in self._iter_runs():
            yield from records

    def iter_batches(self, num_records: int) -> Iterator[list[bytes]]:
        """Read all files in lists of ``num_records``, the last one shorter.

        Faster than record by record. A batch goes across files.

        Raises:
            TruncatedError: A file ends inside a record.
            ChecksumError: A length or a record is damaged.
            FormatError: A record is longer than allowed, or a file does not inflate. All three
                only after every whole batch of the records before.
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
        for path in self.paths:
            with open_file(path) as opened:
                self._sets.require_unchanged()
                yield from iter_runs(opened, path, self._options, report)


def iter_records(
    file: FilePath | BinaryIO,
    *,
    compression: Compression | str | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
    on_damage: DamagePolicy = _STRICT,
    report: DamageReport | None = None,
) -> Iterator[bytes]:
    """Read a file record by record, in memory for the longest of them.

    Args:
        file: A path, or a binary file, which is read from its position on and stays open; it must
            be seekable unless ``on_damage`` is strict.
        compression: ``""``, ``"GZIP"`` or ``"ZLIB"``; None finds out.
        max_record_bytes: Refuse a longer record.
        on_damage: What to do about damage; see ``TFRecordReader``.
        report: Gets what is dropped; needed unless ``on_damage`` is strict. What is in it already
            counts for the most that may be dropped.

    Yields:
        Each record, its checksum verified.

    Raises:
        TruncatedError: The file ends inside a record.
        ChecksumError: A length or a record is damaged.
        FormatError: A record is longer than allowed, or the file does not inflate. All three name
            the file and where the record starts; in a compressed file inflated bytes are counted.
        ConfigError: There is no ``report`` for what ``on_damage`` lets pass.
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
