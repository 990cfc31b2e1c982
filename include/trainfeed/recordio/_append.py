"""Appends to a file that may have lost its writer in the middle of a chunk."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from trainfeed.errors import (
    BadMagicError,
    ChecksumError,
    ConflictError,
    FormatError,
    TruncatedError,
)
from trainfeed.paths import FilePath, os_errors, plain_fd
from trainfeed.recordio._byte_source import ByteSource, open_source
from trainfeed.recordio._chunk import ChunkBuffers, ChunkReader, read_header
from trainfeed.recordio._chunk_resync import ChunkResync
from trainfeed.recordio._framing import record_bounds
from trainfeed.recordio._record_writer import RecordWriter
from trainfeed.recordio._recordio_format import HEADER_BYTES, MAX_RAW_BYTES, Codec, located

__all__ = ["RecordAppender"]


class RecordAppender(RecordWriter):
    """Writes records behind those of a file, after cutting off what a crash has left there.

    Opening it walks the headers, verifies the last chunk, cuts the file behind the last whole one
    and makes that durable. Where whole chunks follow a damaged place, that is no torn tail: it
    raises, and cuts nothing. It holds a lock on the file, so that two of them cannot cut each
    other's chunks; who reads meanwhile may see a torn chunk. Chunks of the file may have other
    codecs.

    As a context manager it makes the file durable, or cuts off all that it wrote after an
    exception. It does the latter also when the file refuses bytes, and is closed then.

    Args:
        path: The file; it must exist. Its chunks before the last are not verified.
        codec: How new chunks are compressed.
        level: As for ``RecordWriter``, like all that follows.
        max_chunk_bytes: As there.
        quantum_records: As there.
        max_raw_bytes: As there; the last chunk of the file must not be larger either.

    Attributes:
        num_cut_bytes: How many bytes were cut off when it was opened.
        chunks: What was appended so far.

    Raises:
        NotFoundError: No file is at the path.
        ConflictError: Another one is appending to it.
        BadMagicError: It is no record file, or its damage is no torn tail.
        TruncatedError: What seems to be torn is a damaged length.
        UnsupportedCodecError: It has a chunk of a codec that this version does not have.
        FormatError: It is damaged otherwise, in another layout, or no plain file.
        ConfigError: The codec has no such level, or an option is out of range.
    """

    def __init__(
        self,
        path: FilePath,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        max_chunk_bytes: int = 1 << 20,
        quantum_records: int = 256,
        max_raw_bytes: int = MAX_RAW_BYTES,
    ) -> None:
        self._path = os.fspath(path)
        with _closed_on_error(_open_locked(self._path)) as self._appended:
            with open_source(self._appended.fileno()) as source:
                end_bytes = source.num_bytes()
                self._start_bytes = _whole_bytes(source, self._path, max_raw_bytes)
            self._appended.seek(self._start_bytes)
            # Before the cut: this refuses options that are out of range.
            super().__init__(
                self._appended,
                codec=codec,
                level=level,
                max_chunk_bytes=max_chunk_bytes,
                quantum_records=quantum_records,
                max_raw_bytes=max_raw_bytes,
            )
            self.num_cut_bytes = end_bytes - self._start_bytes
            if self.num_cut_bytes:
                self._cut()

    def close(self) -> None:
        """Write the last chunk, make the file durable, and let others append.

        Does nothing on a closed one.

        Raises:
            QuotaExceededError: The disk is full.
            StorageError: The file refused the bytes, or nobody knows whether they are durable.
        """
        super().close()
        if not self._appended.closed:
            with _closed_on_error(self._appended), os_errors(self._path):
                os.fsync(self._appended.fileno())
            self._appended.close()

    def _abandon(self) -> None:
        super()._abandon()
        if not self._appended.closed:
            with _closed_on_error(self._appended):
                self._cut()
            self._appended.close()

    def _cut(self) -> None:
        with os_errors(self._path):
            os.ftruncate(self._appended.fileno(), self._start_bytes)
            os.fsync(self._appended.fileno())


def _open_locked(path: str) -> BinaryIO:
    with os_errors(path):
        file = os.fdopen(plain_fd(path, follow=True, write=True), "r+b", buffering=0)
        with _closed_on_error(file):
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConflictError(
                    f"{path} is being appended to; wait until it is closed"
                ) from error
    return file


@contextmanager
def _closed_on_error(file: BinaryIO) -> Iterator[BinaryIO]:
    try:
        yield file
    except BaseException:
        file.close()
        raise


def _whole_bytes(source: ByteSource, path: str, max_raw_bytes: int) -> int:
    """Return where the last whole chunk ends; what lies behind it is a torn tail.

    Raises:
        FormatError: It is none, or the file is no record file.
    """
    end_bytes = source.num_bytes()
    reader = ChunkReader(source, ChunkBuffers(), max_raw_bytes)
    resync = ChunkResync(source, reader, end_bytes)
    offsets, error = _walk_headers(source, path, end_bytes)
    if error is not None:
        _require_record_file(resync, offsets[-1], error)
        _require_torn(resync, offsets[-1], error)
    while len(offsets) > 1:
        start_bytes = offsets[-2]
        try:
            with located(path, start_bytes, len(offsets) - 2):
                info, framing = reader.read(start_bytes, offsets[-1])
                record_bounds(framing, info.num_records)
        except ChecksumError as error:
            _require_torn(resync, start_bytes, error)
            offsets.pop()
        else:
            break
    return offsets[-1]


def _walk_headers(
    source: ByteSource, path: str, end_bytes: int
) -> tuple[list[int], FormatError | None]:
    """Return where chunks start and the last one ends, and why there is none behind it."""
    offsets = [0]
    try:
        while offsets[-1] < end_bytes:
            with located(path, offsets[-1], len(offsets) - 1):
                header = read_header(source, offsets[-1], end_bytes)
            offsets.append(offsets[-1] + HEADER_BYTES + header.stored_bytes)
    except (TruncatedError, BadMagicError) as error:
        return offsets, error
    return offsets, None


def _require_record_file(resync: ChunkResync, stop_bytes: int, error: FormatError) -> None:
    """Raise where nothing is known to be a chunk: any file could be cut to nothing."""
    if stop_bytes == 0 and not resync.starts_chunk(0):
        raise BadMagicError(
            "expected a record file, no chunk starts here; nothing was cut",
            path=error.path,
            offset_bytes=0,
        )


def _require_torn(resync: ChunkResync, start_bytes: int, error: FormatError) -> None:
    """Raise ``error`` if a whole chunk is at or behind ``start_bytes``.

    A damaged length leads the walk astray, to a place that looks like a torn tail. That a whole
    chunk may also be part of a record does not matter here: cutting could not be undone.
    """
    if resync.gap_at(start_bytes).is_whole:
        place = "here"
    elif (chunk_bytes := resync.next_chunk(start_bytes)) < resync.end_bytes:
        place = f"at byte {chunk_bytes}"
    else:
        return
    error.args = (
        f"{error.args[0]}; a whole chunk is {place}, so this is no torn tail; nothing was cut",
    )
    raise error
