"""Appends to a file whose last writer may have died in the middle of a chunk."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, ClassVar

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
    """Writes records after those of a file, after cutting off a torn tail that a crash has left.

    Opening walks through the headers, verifies the last chunk, cuts the file after the last whole
    chunk and makes the cut durable. A damaged place with whole chunks after it is not a torn
    tail: opening raises, and cuts nothing. The appender holds a lock on the file, so that two
    appenders cannot cut each other's chunks; a reader may see a torn chunk meanwhile. Chunks of
    the file may have other codecs than new ones.

    The end of the context makes the file durable; after an exception it cuts off everything that
    the appender wrote. When the file refuses bytes, the appender does the same, and closes.

    Args:
        path: The file; it must exist. Its chunks before the last are not verified.
        codec: How new chunks are compressed.
        level: See ``RecordWriter``.
        max_chunk_bytes: See ``RecordWriter``.
        quantum_records: See ``RecordWriter``.
        max_raw_bytes: See ``RecordWriter``; the last chunk of the file must not be larger either.

    Attributes:
        num_cut_bytes: Number of bytes that opening cut off.
        chunks: The chunks that were appended so far.

    Raises:
        NotFoundError: No file is at the path.
        ConflictError: Another appender holds the lock of the file.
        BadMagicError: The file is not a RecordIO file, or its damage is not a torn tail.
        TruncatedError: The end looks torn because a length is damaged.
        UnsupportedCodecError: A chunk has a codec that this version does not know.
        FormatError: The file is damaged in another way, has another layout, or is not a plain file.
        ConfigError: The codec has no such level, or an option is out of range.
    """

    # A reader sees every chunk as soon as it is complete, and a crash leaves it.
    _gathers_chunks: ClassVar[bool] = False

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
        # Order: lock, find the end of the last whole chunk, check the options, and only then cut.
        with _closed_on_error(_open_locked(self._path)) as self._appended:
            with open_source(self._appended.fileno()) as source:
                end_bytes = source.num_bytes()
                self._start_bytes = _whole_bytes(source, self._path, max_raw_bytes)
            self._appended.seek(self._start_bytes)
            # Before the cut, because this call refuses options that are out of range.
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
        """Write the last chunk, make the file durable, and release the lock.

        Does nothing on a closed appender.

        Raises:
            QuotaExceededError: The disk is full.
            StorageError: The file refused the bytes, or could not be synced.
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
            # Cut and synced in this order, before the first new chunk is written.
            os.ftruncate(self._appended.fileno(), self._start_bytes)
            os.fsync(self._appended.fileno())


def _open_locked(path: str) -> BinaryIO:
    with os_errors(path):
        file = os.fdopen(plain_fd(path, follow=True, write=True), "r+b", buffering=0)
        with _closed_on_error(file):
            try:
                # The lock is held until the file is closed; the kernel releases it when the
                # process dies.
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
    """Return the end of the last whole chunk; the bytes after it are a torn tail.

    Raises:
        FormatError: The bytes are not a torn tail, or the file is not a RecordIO file.
    """
    end_bytes = source.num_bytes()
    reader = ChunkReader(source, ChunkBuffers(), max_raw_bytes)
    resync = ChunkResync(source, reader, end_bytes)
    offsets, error = _walk_headers(source, path, end_bytes)
    if error is not None:
        # Two checks before anything is cut: the file begins with a chunk, and no whole chunk
        # follows the damage.
        _require_record_file(resync, offsets[-1], error)
        _require_torn(resync, offsets[-1], error)
    # Headers were checked on the walk, payloads only here: from the end back to the first chunk
    # that verifies.
    while len(offsets) > 1:
        start_bytes = offsets[-2]
        try:
            with located(path, start_bytes, len(offsets) - 2):
                info, framing = reader.read(start_bytes, offsets[-1])
                record_bounds(framing, info.num_records)
        # A chunk whose payload did not reach the disk before a crash: it counts as torn too.
        except ChecksumError as error:
            _require_torn(resync, start_bytes, error)
            offsets.pop()
        else:
            break
    return offsets[-1]


def _walk_headers(
    source: ByteSource, path: str, end_bytes: int
) -> tuple[list[int], FormatError | None]:
    """Return the starts of chunks, the end of the last one, and the error found there."""
    offsets = [0]
    try:
        while offsets[-1] < end_bytes:
            # Only headers are read: a walk over a large file reads 20 bytes per chunk.
            with located(path, offsets[-1], len(offsets) - 1):
                header = read_header(source, offsets[-1], end_bytes)
            offsets.append(offsets[-1] + HEADER_BYTES + header.stored_bytes)
    except (TruncatedError, BadMagicError) as error:
        return offsets, error
    return offsets, None


def _require_record_file(resync: ChunkResync, stop_bytes: int, error: FormatError) -> None:
    """Raise if the file does not begin with a chunk: any other file would be cut to nothing."""
    if stop_bytes == 0 and not resync.starts_chunk(0):
        raise BadMagicError(
            "expected a record file, no chunk starts here; nothing was cut",
            path=error.path,
            offset_bytes=0,
        )


def _require_torn(resync: ChunkResync, start_bytes: int, error: FormatError) -> None:
    """Raise ``error`` if a whole chunk is at or after ``start_bytes``.

    A damaged length leads the walk to a wrong place, which looks like a torn tail. The bytes of a
    whole chunk might also be part of a record; that counts as a chunk here too, because a cut
    cannot be undone.
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
