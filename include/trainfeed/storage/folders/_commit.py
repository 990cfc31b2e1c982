"""The rename that gives a complete temporary folder its name, and the look at what it did."""

from __future__ import annotations

import logging
from pathlib import Path

from trainfeed import faults
from trainfeed.errors import (
    CommitUnknownError,
    ConflictError,
    FormatError,
    NotFoundError,
    StorageError,
)
from trainfeed.paths import walk
from trainfeed.storage import posix
from trainfeed.storage._location import Location
from trainfeed.storage.folders._folder_manifest import (
    TRANSFER_MANIFEST,
    FolderManifest,
)
from trainfeed.storage.folders._folder_tree import is_local
from trainfeed.storage.folders._patience import Patience
from trainfeed.storage.folders._verification import read_manifest, verify

__all__ = ["commit", "is_there", "write_manifest"]

logger = logging.getLogger(__name__)


def is_there(target: Location, manifest: FolderManifest, patience: Patience) -> bool:
    """Return whether the target is a folder with this content; False if nothing has the name.

    All files of an existing folder are read.

    Raises:
        ConflictError: The name is taken by a file, or by a folder of another or an unknown content.
        ChecksumError: The folder has this manifest, but a file differs from it.
        FormatError: The folder has this manifest, but a file is missing or foreign.
        StorageError: The store refused or failed.
    """
    if not _has_manifest(target, manifest, patience):
        return False
    verify(target, manifest, patience)
    return True


def write_manifest(temporary: Location, manifest: FolderManifest, patience: Patience) -> None:
    """Write the manifest as the last file, and make all names of the folder durable."""
    place = temporary / TRANSFER_MANIFEST
    data = manifest.to_bytes()

    def write() -> None:
        place.delete()
        with place.open_write() as file:
            file.write(data)
        if place.read_bytes() != data:
            raise StorageError(f"{place.uri}: read back other bytes; copy the folder again")

    patience.call(write)
    if is_local(temporary):
        folders = [path for path in walk(temporary.path) if path.is_dir()]
        for folder in [*sorted(folders, reverse=True), Path(temporary.path)]:
            posix.sync_dir(folder)


def commit(
    temporary: Location, target: Location, manifest: FolderManifest, patience: Patience
) -> bool:
    """Rename a complete folder to its name, and look for it there.

    Returns:
        Whether this call named the folder; False if an equal one has come there meanwhile.

    Raises:
        ConflictError: The name was taken meanwhile by another content; nothing was moved.
        CommitUnknownError: The store did not say whether the folder has its name.
        StorageError: The store refused; the name is free.
    """
    faults.point("transfer.before_rename")
    try:
        patience.call(lambda: temporary.rename(target))
    except StorageError as error:
        # A repeated rename whose first answer was lost finds the name taken, or the source gone.
        if not _looked(target, manifest, patience, error):
            raise
    else:
        if not _looked(target, manifest, patience, None):
            raise CommitUnknownError(
                f"{target.uri}: the folder was renamed, and is not there; another program may have"
                " moved it; look for it, and copy it again"
            )
    faults.point("transfer.after_rename")
    if is_local(target):
        posix.sync_dir(Path(target.parent.path))
    return not patience.call(temporary.exists)


def _looked(
    target: Location, manifest: FolderManifest, patience: Patience, cause: StorageError | None
) -> bool:
    try:
        return _has_manifest(target, manifest, patience)
    except ConflictError:
        raise
    except (StorageError, FormatError) as error:
        raise CommitUnknownError(
            f"{target.uri}: it is not known whether the folder has its name: {cause or error};"
            " what has the name stays; only the temporary folder of this copy is deleted; copy it"
            " again: a copy first looks whether the folder is there"
        ) from error


def _has_manifest(target: Location, manifest: FolderManifest, patience: Patience) -> bool:
    try:
        is_dir = patience.call(target.stat).is_dir
        found = read_manifest(target, patience) if is_dir else None
    except NotFoundError:
        return False
    if found == manifest:
        return True
    got = "a file" if not is_dir else f"a folder without {TRANSFER_MANIFEST}"
    if found is not None:
        got = f"one with content {found.sha256[:12]}"
    raise ConflictError(
        f"{target.uri}: expected nothing, or the folder with content {manifest.sha256[:12]}, got"
        f" {got}; nothing was changed; choose another name, or move what has this one away"
    )
