"""Waits for a folder that another process downloads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trainfeed.errors import ConflictError, NotFoundError, StorageError
from trainfeed.storage._local_files import LocalFileSystem
from trainfeed.storage._location import Location
from trainfeed.storage.folders._folder_manifest import FolderManifest
from trainfeed.storage.folders._folder_tree import folder_tree
from trainfeed.storage.folders._verification import read_manifest, require_listed

__all__ = ["wait_for"]

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0


def wait_for(
    folder: Path,
    *,
    timeout_s: float,
    manifest_sha256: str | None = None,
    pause: Callable[[float], object] | None = None,
) -> FolderManifest:
    """Wait until a download of another process has named a folder, and return its manifest.

    A folder gets its name complete, so one that is there is whole; its listing and sizes are
    compared with the manifest, its bytes are not.

    Args:
        folder: The folder that ``download`` makes, on a file system that both processes see.
        timeout_s: Longest wait in seconds.
        manifest_sha256: SHA-256 of the expected manifest; None accepts every content.
        pause: Called with the seconds to wait between two looks.

    Raises:
        StorageError: The folder did not come in time.
        ConflictError: The folder has another content, or no manifest.
        FormatError: The folder differs from its manifest.
    """
    wait = threading.Event().wait if pause is None else pause
    place = Location(LocalFileSystem(), str(folder.absolute()))
    deadline_s, pause_s = time.monotonic() + timeout_s, _FIRST_PAUSE_S
    while True:
        try:
            return _whole(place, manifest_sha256)
        except NotFoundError as error:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise StorageError(
                    f"expected {folder} to be downloaded within {timeout_s:g} s, it is not there;"
                    " nothing was read; look at the log of the process that downloads it, rank 0"
                ) from error
        wait(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _whole(place: Location, manifest_sha256: str | None) -> FolderManifest:
    manifest = read_manifest(place)
    if manifest is None or manifest_sha256 not in (None, manifest.sha256):
        got = "no manifest" if manifest is None else manifest.sha256
        raise ConflictError(
            f"{place.path}: expected the folder with manifest {manifest_sha256 or 'of a download'},"
            f" got {got}; nothing was read; remove the folder, and start again"
        )
    require_listed(place, folder_tree(place), manifest)
    return manifest
