"""What an HDFS is over any protocol: its operations by rename, and what its exceptions mean."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import BinaryIO, Final, Protocol

from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.paths import storage_error
from trainfeed.storage._atomic import claim_by_rename, replace_by_rename
from trainfeed.storage._base import FileInfo, FileInfos, FileSystem, has_file

__all__ = ["EXCEPTION_KINDS", "HadoopFiles", "check_length", "hadoop_error", "outage"]

# By simple class name. What is missing here is a plain StorageError: safe mode, a NameNode in
# standby, an expired lease, a plain IOException. Another try may get past it.
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

# A DataNode passes some of the NameNode's exceptions on as a RemoteException with this text.
_TEXT_KINDS: Final[dict[str, type[StorageError]]] = {
    "The maximum path component name limit": UnsuitableStoreError,
    "The directory item limit": QuotaExceededError,
}


class HadoopFiles(FileSystem, Protocol):
    """The part of ``FileSystem`` that is the same whatever protocol a NameNode is asked by."""

    @abstractmethod
    def _entries(self, path: str) -> Iterable[FileInfo]:
        """What a folder holds, in any order; a file may hold itself."""

    @abstractmethod
    def _move(self, source: str, target: str, *, overwrite: bool) -> None:
        """Rename, never into a folder that is there."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return has_file(self, path)

    def list(self, path: str) -> FileInfos:
        """What a folder holds."""
        # A client lists a file as if it were a folder that holds itself.
        if not self.stat(path).is_dir:
            raise NotFoundError(f"{self.uri(path)}: expected a folder, got a file")
        return sorted(self._entries(path), key=lambda info: info.name)

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder a name that nobody has."""
        # The server says only "IOException" when one is a file and the other a folder.
        if self.exists(target):
            raise ConflictError(f"{self.uri(target)}: the name is taken; nothing was moved")
        self._move(source, target, overwrite=False)

    def replace(self, source: str, target: str) -> None:
        """Give a file a name that a file may have."""
        try:
            is_dir = self.stat(target).is_dir
        except NotFoundError:
            is_dir = False
        if is_dir:
            raise ConflictError(f"{self.uri(target)}: expected a file to replace, got a folder")
        self._move(source, target, overwrite=True)

    def write_atomic(self, path: str, write: Callable[[BinaryIO], None]) -> None:
        """Write a file that appears when it is whole."""
        replace_by_rename(self, path, write)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Make a file of this content, unless the name is taken."""
        return claim_by_rename(self, path, data)

    def free_bytes(self, path: str) -> int | None:  # noqa: ARG002
        """Unknown: quotas of all parents and the DataNodes decide."""
        return None


def hadoop_error(place: str, exception: str | None, message: str) -> StorageError:
    """The error for an exception that a Hadoop server raised.

    Args:
        place: URI, and what was asked.
        exception: Name of the Java class, with or without its package; None when unknown.
        message: What the server said; a stack trace after its first line is dropped.
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
    """The error for a server that does not answer, or not as one that is well."""
    error = storage_error(StorageError, place, reason)
    error.is_outage = True
    return error


def check_length(uri: str, size_bytes: int, num_bytes: int) -> None:
    """Refuse a file that holds another number of bytes than were written.

    Raises:
        StorageError: It does.
    """
    if size_bytes != num_bytes:
        raise StorageError(
            f"{uri}: expected {num_bytes} bytes after closing, got {size_bytes};"
            " write the file again"
        )
