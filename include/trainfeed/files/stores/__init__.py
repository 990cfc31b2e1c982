"""Files and folders of any store: one protocol over local paths, HDFS, WebHDFS and S3.

Work files go through a ``Location``. Versions are published with
``trainfeed.files.stores.posix``, which needs a mounted file system.
"""

from __future__ import annotations

from trainfeed.files.stores.file_system import FileInfo, FileSystem, RenamingFiles
from trainfeed.files.stores.location import (
    CLOCK_MARGIN,
    Location,
    RenamingLocation,
    present,
    require_store_clock,
)

__all__ = [
    "CLOCK_MARGIN",
    "FileInfo",
    "FileSystem",
    "Location",
    "RenamingFiles",
    "RenamingLocation",
    "present",
    "require_store_clock",
]
