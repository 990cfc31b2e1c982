"""From Java's exceptions to ours: what a NameNode or DataNode means by them, over any protocol."""

from __future__ import annotations

from typing import Final

from trainfeed.errors import (
    AccessDeniedError,
    ConflictError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.paths import storage_error

__all__ = ["EXCEPTION_KINDS", "check_length", "hadoop_error", "outage"]

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
            " write the file anew"
        )
