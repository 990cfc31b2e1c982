"""All records of one file, or of several, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from trainfeed.errors import FormatError, TruncatedError
from trainfeed.paths import FilePath, expand_paths, path_of
from trainfeed.tfrecord._files import open_file
from trainfeed.tfrecord._format import (
    CHECKSUM,
    HEADER_BYTES,
    MAX_RECORD_BYTES,
    Compression,
    compression_named,
    unpack_header,
)
from trainfeed.tfrecord._runs import next_run
from trainfeed.tfrecord._streams import BLOCK_BYTES, Stream, open_stream

__all__ = ["TFRecordReader", "iter_records"]


class TFRecordReader:
    """The records of files, one after another; can be iterated again.

    Strict: the first thing that is wrong with a file ends the iteration with an error.

    Args:
        paths: Files, or several separated by commas, or a list of such. Each part of a text may be
            a glob, whose matches are sorted by name; path objects are taken as they are.
        compression: ``""``, ``"GZIP"`` or ``"ZLIB"``; None finds out for each file.
        max_record_bytes: Refuse a longer record.
        tolerate_truncated_tail: Go on with the next file where one ends inside a record, or inside
            its compressed data.

    Attributes:
        paths: The files.
        truncated: The truncations that the latest iteration has gone past, in the order of files;
            each says where its file was left.

    Raises:
        NotFoundError: A part matches no file; names the part.
        ConfigError: The compression is unknown.
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath],
        *,
        compression: Compression | str | None = None,
        max_record_bytes: int = MAX_RECORD_BYTES,
        tolerate_truncated_tail: bool = False,
    ) -> None:
        self.paths = expand_paths(paths)
        self.truncated: list[TruncatedError] = []
        self._compression = None if compression is None else compression_named(compression)
        self._max_record_bytes = max_record_bytes
        self._tolerate = tolerate_truncated_tail

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
        self.truncated = []
        for path in self.paths:
            try:
                with open_file(path) as opened:
                    yield from _iter_runs(opened, self._compression, self._max_record_bytes, path)
            except TruncatedError as error:
                if not self._tolerate:
                    raise
                self.truncated.append(error)


def iter_records(
    file: FilePath | BinaryIO,
    *,
    compression: Compression | str | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[bytes]:
    """Read a file record by record, in memory for the longest of them.

    Args:
        file: A path, or a binary file, which is read from its position on and stays open.
        compression: ``""``, ``"GZIP"`` or ``"ZLIB"``; None finds out.
        max_record_bytes: Refuse a longer record.

    Yields:
        Each record, its checksum verified.

    Raises:
        TruncatedError: The file ends inside a record.
        ChecksumError: A length or a record is damaged.
        FormatError: A record is longer than allowed, or the file does not inflate. All three name
            the file and where the record starts; in a compressed file inflated bytes are counted.
    """
    kind = None if compression is None else compression_named(compression)
    with open_file(file) as opened:
        for records in _iter_runs(opened, kind, max_record_bytes, path_of(file)):
            yield from records


def _iter_runs(
    file: BinaryIO, compression: Compression | None, max_record_bytes: int, path: str | None
) -> Iterator[list[bytes]]:
    """Yield the records of a file, as many at once as lie in one block."""
    block, offset_bytes, start, number = b"", 0, 0, 0
    known_header, num_bytes, need_bytes = b"", 0, HEADER_BYTES
    try:
        stream = open_stream(file, compression)
        while block := _refill(stream, block, need_bytes):
            start, need_bytes = 0, HEADER_BYTES
            while len(header := block[start : start + HEADER_BYTES]) == HEADER_BYTES:
                # Records of one length have one header, so most need no second look.
                if header != known_header:
                    num_bytes = unpack_header(header, max_record_bytes)
                    known_header = header
                stride = HEADER_BYTES + num_bytes + CHECKSUM.size
                if start + stride > len(block):
                    need_bytes = stride
                    break
                run = next_run(block, start, stride, max_record_bytes)
                yield run.records
                start, number = start + run.num_bytes, number + len(run.records)
                run.require_whole()
            block = block[start:]
            offset_bytes, start = offset_bytes + start, 0
    except FormatError as error:
        error.path, error.offset_bytes = path, offset_bytes + start
        error.args = (f"record {number}: {error.args[0]}",)
        raise


def _refill(stream: Stream, block: bytes, need_bytes: int) -> bytes:
    """Return ``block`` and what follows it, at least ``need_bytes``; nothing at the end.

    Memory is taken for bytes that are there, not for bytes that a length speaks of.
    """
    pieces, have_bytes = [block], len(block)
    while have_bytes < need_bytes:
        piece = stream.read(BLOCK_BYTES)
        if not piece:
            break
        pieces.append(piece)
        have_bytes += len(piece)
    if 0 < have_bytes < need_bytes:
        what = "a header" if need_bytes == HEADER_BYTES else "a record"
        raise TruncatedError(f"expected {what} of {need_bytes} bytes, the file has {have_bytes}")
    return b"".join(pieces)
