"""The common part of the HDFS protocols: operations by rename, and the meaning of exceptions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
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
from trainfeed.storage._base import FileInfo, FileInfos, FileSystem, Wanted, has_file

__all__ = ["EXCEPTION_KINDS", "HadoopFiles", "check_length", "hadoop_error", "outage"]

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


class HadoopFiles(FileSystem, Protocol):
    """The part of ``FileSystem`` that is the same for all protocols of a NameNode."""

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
