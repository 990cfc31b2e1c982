"""Attributes of folders on a mounted CephFS: namespace of new objects, quotas, use."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainfeed.errors import StorageError, UnsuitableStoreError
from trainfeed.paths import os_errors

__all__ = ["QUOTA_BYTES", "QUOTA_FILES", "attribute", "cluster_id", "number", "set_attribute"]

QUOTA_BYTES: Final = "ceph.quota.max_bytes"
QUOTA_FILES: Final = "ceph.quota.max_files"


def attribute(folder: Path, name: str) -> str:
    """Return an attribute; empty if the folder has none of its own.

    Raises:
        StorageError: The folder cannot be asked.
    """
    with os_errors(folder):
        try:
            return os.getxattr(folder, name, follow_symlinks=False).decode()
        except OSError as error:
            if error.errno == errno.ENODATA:
                return ""
            raise


def number(folder: Path, name: str) -> int:
    """Return an attribute that is a number; 0 if the folder has none of its own."""
    return int(attribute(folder, name) or 0)


def set_attribute(folder: Path, name: str, value: str) -> None:
    """Set an attribute and read it back.

    Raises:
        StorageError: The mount refused, or shows another value afterwards.
    """
    with os_errors(folder):
        os.setxattr(folder, name, value.encode(), follow_symlinks=False)
    # A quota of 0 is none.
    found = attribute(folder, name)
    if (found or "0") != (value or "0"):
        raise StorageError(
            f"expected {name}={value} of {folder} after it was set, got {found!r}; run the same"
            " command again"
        )


def cluster_id(mount: Path) -> str:
    """Return the id of the cluster whose file system is mounted.

    Raises:
        UnsuitableStoreError: The folder is not on a CephFS.
    """
    with suppress(StorageError):
        if found := attribute(mount, "ceph.cluster_fsid"):
            return found
    raise UnsuitableStoreError(
        f"expected a mounted CephFS at {mount}, got another folder; nothing was changed; mount the"
        " file system with an administrator's key, and name the mount by --mount"
    )
