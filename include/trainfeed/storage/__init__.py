"""Files and folders of any store: one protocol over local paths, HDFS and WebHDFS.

Work files go through a ``Location``. Versions are published with ``trainfeed.storage.posix``, which
needs a mounted file system.
"""

from __future__ import annotations

from trainfeed.storage.file_system import FileInfo, FileSystem
from trainfeed.storage.location import CLOCK_MARGIN, Location, present, require_store_clock

__all__ = [
    "CLOCK_MARGIN",
    "FileInfo",
    "FileSystem",
    "Location",
    "present",
    "require_store_clock",
]
