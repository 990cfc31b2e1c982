"""The common part of the HDFS protocols: operations by rename, exceptions, streams."""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files import storage_error
from trainfeed.files.stores.file_system import (
    FileInfo,
    FileInfos,
    RenamingFiles,
    Wanted,
    claim_by_rename,
    has_file,
    replace_by_rename,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


# --- Unbuffered files over a network client: position, bounds and counts of bytes

# Measured: hdfs-native reads ranges of 1 MiB at 735 MiB/s over the loopback, of 4 MiB at 820, of
# 256 KiB at 630.
BUFFER_BYTES: Final = 1 << 20


class RangeSource(io.RawIOBase):
    """A file of known length that is read in ranges.

    Args:
        uri: URI of the file, for messages.
        size_bytes: Length of the file; no request goes beyond it.
        read_at: Returns all bytes of the range ``(offset_bytes, num_bytes)``.
        release: Releases the resources of ``read_at``.
    """

    def __init__(
        self,
        uri: str,
        size_bytes: int,
        *,
        read_at: Callable[[int, int], bytes],
        release: Callable[[], None],
    ) -> None:
        self._uri = uri
        self._size_bytes = size_bytes
        self._read_at = read_at
        self._release = release
        self._offset_bytes = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset_bytes

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset_bytes, os.SEEK_END: self._size_bytes}
        self._offset_bytes = max(0, start[whence] + offset)
        return self._offset_bytes

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._read(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self._read(self._size_bytes)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._release()

    def _read(self, num_bytes: int) -> bytes:
        num_bytes = min(num_bytes, self._size_bytes - self._offset_bytes)
        if num_bytes <= 0:
            return b""
        data = self._read_at(self._offset_bytes, num_bytes)
        if len(data) != num_bytes:
            raise StorageError(
                f"{self._uri} at byte {self._offset_bytes}: expected {num_bytes} bytes,"
                f" got {len(data)}; retry"
            )
        self._offset_bytes += num_bytes
        return data


class UploadTarget(io.RawIOBase):
    """A file that is written from its start to its end.

    Args:
        uri: URI of the file, for messages.
        send: Sends the next bytes, all of them.
        finish: Makes the file durable, and checks its length.
        abandon: Gives up the file, after ``send`` raised.
    """

    def __init__(
        self,
        uri: str,
        *,
        send: Callable[[bytes], None],
        finish: Callable[[int], None],
        abandon: Callable[[], None],
    ) -> None:
        self._uri = uri
        self._send = send
        self._finish = finish
        self._abandon = abandon
        self._num_bytes = 0
        self._failed = False

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._num_bytes

    def write(self, data: ReadableBuffer, /) -> int:
        # After a failure, the buffer on top writes the same bytes again when it is closed.
        if self._failed:
            raise StorageError(f"{self._uri}: an earlier write failed; write the file again")
        self._failed = True
        # A copy: after its deadline, a call of the client may still read the bytes that the buffer
        # on top overwrites next.
        block = bytes(data)
        self._send(block)
        self._failed = False
        self._num_bytes += len(block)
        return len(block)

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self._failed:
                self._abandon()
            else:
                self._finish(self._num_bytes)
        finally:
            super().close()


# --- The common part of the HDFS protocols: operations by rename, and the meaning of exceptions

# Simple class name → error. Other exceptions become a plain StorageError, which may be retried:
# safe mode, a NameNode in standby, an expired lease, a plain IOException.
EXCEPTION_KINDS: Final[dict[str, type[StorageError]]] = {
    "FileNotFoundException": NotFoundError,
    "ParentNotDirectoryException": NotFoundError,
    "PathNotFoundException": NotFoundError,
    "AccessControlException": AccessDeniedError,
    "AuthenticationException": AccessDeniedError,
    "AuthorizationException": AccessDeniedError,
    "InvalidToken": AccessDeniedError,
    "SecurityException": AccessDeniedError,
    "AlreadyBeingCreatedException": ConflictError,
    "FileAlreadyExistsException": ConflictError,
    "PathIsNotEmptyDirectoryException": ConflictError,
    "ClusterStorageCapacityExceededException": QuotaExceededError,
    "DSQuotaExceededException": QuotaExceededError,
    "NSQuotaExceededException": QuotaExceededError,
    "QuotaByStorageTypeExceededException": QuotaExceededError,
    "QuotaExceededException": QuotaExceededError,
    "MaxDirectoryItemsExceededException": QuotaExceededError,
    "HadoopIllegalArgumentException": UnsuitableStoreError,
    "IllegalArgumentException": UnsuitableStoreError,
    "InvalidPathException": UnsuitableStoreError,
    "PathComponentTooLongException": UnsuitableStoreError,
    "UnresolvedLinkException": UnsuitableStoreError,
    "UnsupportedOperationException": UnsuitableStoreError,
}

# A DataNode passes on some exceptions of the NameNode as a RemoteException with such a text.
_TEXT_KINDS: Final[dict[str, type[StorageError]]] = {
    "The maximum path component name limit": UnsuitableStoreError,
    "The directory item limit": QuotaExceededError,
}


class HadoopFiles(RenamingFiles, Protocol):
    """The part of ``RenamingFiles`` that is the same for all protocols of a NameNode."""

    @abstractmethod
    def _entries(self, path: str) -> Iterable[FileInfo]:
        """Return the entries of a folder, in any order; for a file, perhaps the file itself."""

    @abstractmethod
    def _move(self, source: str, target: str, *, overwrite: bool) -> None:
        """Rename, but never into an existing folder."""

    def exists(self, path: str) -> bool:
        """Return whether the path exists."""
        return has_file(self, path)

    def list(
        self,
        path: str,
        wanted: Wanted | None = None,
        *,
        broken: bool = False,  # noqa: ARG002 - the NameNode lists every link as what it is
    ) -> FileInfos:
        """Return the entries of a folder."""
        # Without this check: a client lists a file like a folder with the file in it.
        if not self.stat(path).is_dir:
            raise NotFoundError(f"{self.uri(path)}: expected a folder, got a file")
        found = [each for each in self._entries(path) if wanted is None or wanted(each.name)]
        return sorted(found, key=lambda info: info.name)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder to a free name."""
        # Checked here, because the server raises only IOException if one is a file and the other
        # a folder.
        if self.exists(target):
            raise ConflictError(f"{self.uri(target)}: the name is taken; nothing was moved")
        self._move(source, target, overwrite=False)

    def replace(self, source: str, target: str) -> None:
        """Rename a file, replacing the file that has the name."""
        try:
            is_dir = self.stat(target).is_dir
        except NotFoundError:
            is_dir = False
        if is_dir:
            raise ConflictError(f"{self.uri(target)}: expected a file to replace, got a folder")
        moved = self.stat(source)
        try:
            self._move(source, target, overwrite=True)
        except NotFoundError:
            # A client whose answer was lost sends the rename again, and finds no source any more.
            if not self._is_there(target, moved):
                raise

    def _is_there(self, path: str, moved: FileInfo) -> bool:
        """Return whether a path has the file that had another one; a rename keeps these facts."""
        try:
            found = self.stat(path)
        except NotFoundError:
            return False
        there = replace(moved, name=found.name, path=found.path)
        return (found, found.file_id) == (there, moved.file_id)

    def write_atomic(self, path: str, write: Callable[[BinaryIO], None]) -> None:
        """Write a file that appears when it is complete."""
        replace_by_rename(self, path, write)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Make a file with this content, unless the name is taken."""
        return claim_by_rename(self, path, data)

    def free_bytes(self, path: str) -> int | None:  # noqa: ARG002
        """Return None: quotas of all parents and the space of DataNodes decide."""
        return None


def hadoop_error(place: str, exception: str | None, message: str) -> StorageError:
    """Return the error for an exception of a Hadoop server.

    Args:
        place: URI, and perhaps the operation.
        exception: Name of the Java class, with or without its package; None if unknown.
        message: Message of the server; a stack trace after its first line is dropped.
    """
    name = (exception or "").replace("$", ".").rpartition(".")[2]
    first_line = message.split("\n\tat ", 1)[0].strip()
    kind = EXCEPTION_KINDS.get(name, StorageError)
    for text, text_kind in _TEXT_KINDS.items():
        if text in first_line:
            kind = text_kind
    reason = f"{first_line} ({name})" if name else first_line
    return outage(place, reason) if kind is StorageError else storage_error(kind, place, reason)


def outage(place: str, reason: str) -> StorageError:
    """Return the error for a server that does not answer, or fails; it can be retried."""
    error = storage_error(StorageError, place, reason)
    error.is_outage = True
    return error


def check_length(uri: str, size_bytes: int, num_bytes: int) -> None:
    """Refuse a file whose length differs from the number of bytes written.

    Raises:
        StorageError: The length differs.
    """
    if size_bytes != num_bytes:
        raise StorageError(
            f"{uri}: expected {num_bytes} bytes after closing, got {size_bytes};"
            " write the file again"
        )
