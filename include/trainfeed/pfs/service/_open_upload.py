"""One upload: an unfinished file, to which several requests write chunks."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from trainfeed.errors import CommitUnknownError, ConflictError, FormatError
from trainfeed.pfs.service._areas import Place
from trainfeed.pfs.trees import (
    CHUNK_BYTES,
    DigestKind,
    SourceState,
    Target,
    chunk_count,
    chunk_size,
)

__all__ = ["OpenUpload", "UploadKey"]


@dataclass(frozen=True)
class UploadKey:
    """What makes two uploads the same one: a client that begins again gets the open upload.

    Attributes:
        user: Name of the caller.
        place: Place that the complete file gets.
        state: State of the source.
        replace: Whether a file that has the name is replaced.
    """

    user: str
    place: Place
    state: SourceState
    replace: bool


class OpenUpload:
    """An open unfinished file; methods are called in threads.

    Args:
        key: What is uploaded, and where to.
        target: The unfinished file, which this object closes.
    """

    def __init__(self, key: UploadKey, target: Target) -> None:
        self.key = key
        self._target = target
        self._writers = 0
        self._is_open = True
        self._changed = threading.Condition()

    @property
    def is_open(self) -> bool:
        """Whether the upload takes chunks: it is neither closed nor being finished."""
        return self._is_open

    def write(self, offset: int, data: bytearray) -> None:
        """Write one chunk; the same bytes may be written again.

        Raises:
            FormatError: Offset or size are not those of a chunk of the file.
            ConflictError: The upload ends just now.
            QuotaExceededError: The disk or a quota is full; what is there stays.
            StorageError: The storage refused or failed.
        """
        index, rest = divmod(offset, CHUNK_BYTES)
        num_bytes = self.key.state.num_bytes
        if rest or not 0 <= index < chunk_count(num_bytes):
            raise FormatError(
                f"expected the offset of a chunk of {CHUNK_BYTES} bytes in a file of {num_bytes}"
                f" bytes, got {offset}; nothing was written"
            )
        if len(data) != chunk_size(num_bytes, index):
            raise FormatError(
                f"expected {chunk_size(num_bytes, index)} bytes at {offset}, got {len(data)};"
                " nothing was written"
            )
        with self._writing():
            self._target.write(offset, memoryview(data))

    def digests(self, kind: DigestKind = DigestKind.SHA256) -> tuple[bytes, ...]:
        """Return the digests of the chunks that are there; raises as ``write`` does."""
        with self._writing():
            return self._target.digests(kind)

    def finish(self, chunks: Sequence[bytes], kind: DigestKind = DigestKind.SHA256) -> None:
        """Sync, verify and name the file, and close the upload.

        After an error, an upload whose file has no name yet stays open.

        Raises:
            ChecksumError: The file does not have these chunks.
            FormatError: The number of chunks is not that of the source.
            ConflictError: The name is taken, or the upload ends just now.
            CommitUnknownError: The file may have its name; the upload is closed.
            StorageError: The storage refused or failed.
        """
        # No chunk may come after the comparison: it would change a file that has its name.
        self._end()
        try:
            self._target.commit(chunks, kind)
        except CommitUnknownError:
            self._target.close()
            raise
        except BaseException:
            with self._changed:
                self._is_open = True
            raise
        self._target.close()

    def close(self) -> None:
        """Close the upload after the chunks that are being written; its file stays unfinished.

        Raises:
            ConflictError: The upload ends just now, or has ended.
        """
        self._end()
        self._target.close()

    def _end(self) -> None:
        with self._changed:
            self._require_open()
            self._is_open = False
            self._changed.wait_for(lambda: not self._writers)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._changed:
            self._require_open()
            self._writers += 1
        try:
            yield
        finally:
            with self._changed:
                self._writers -= 1
                self._changed.notify_all()

    def _require_open(self) -> None:
        if not self._is_open:
            raise ConflictError(
                f"{self.key.place.path}: this upload is being finished or was closed; nothing was"
                " written; ask for its end, or begin it again"
            )
