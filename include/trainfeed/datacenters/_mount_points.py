"""Whether the folder of an area has its file system, or is left of a mount that is away.

The folder that an area is mounted on stays when the mount goes. What is written to it then lies on
the disk of this machine, and is hidden when the mount comes back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["is_available"]


def is_available(folder: Path, *, is_local: bool) -> bool:
    """Return whether the files of an area are in ``folder`` now.

    Args:
        folder: Folder of the area; a link to it is followed.
        is_local: Whether a plain folder of this machine is the storage.

    Raises:
        OSError: The folder cannot be looked at.
    """
    return folder.is_dir() and (is_local or _is_mounted(Path(os.path.realpath(folder))))


def _is_mounted(folder: Path) -> bool:
    """Return whether a folder is a mount point, or lies in a file system of other machines.

    Network file systems have no disk: the major number of their device is 0, and so is that of
    layered file systems below ``/``. A disk of this machine, mounted above the folder, may have an
    empty folder for a mount that is away; one that is mounted on the folder itself is meant.
    """
    if os.path.ismount(folder):
        return True
    device = folder.stat().st_dev
    return os.major(device) == 0 and device not in _own_devices()


def _own_devices() -> Iterator[int]:
    for place in (Path("/"), Path.home()):
        with suppress(FileNotFoundError):
            yield place.stat().st_dev
