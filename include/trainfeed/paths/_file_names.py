"""Names and modes of files: finished files, unfinished files and folders."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from trainfeed.datacenters import local_target

__all__ = [
    "FILE_MODE",
    "FilePath",
    "is_unfinished",
    "make_folders",
    "open_emptied",
    "path_of",
    "unfinished_name",
]

FilePath: TypeAlias = str | os.PathLike[str]
# Earlier versions wrote the UUID with hyphens.
_UNFINISHED: Final = re.compile(r".+\.[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\.tmp")
_FOLDER_MODE: Final = 0o755
FILE_MODE: Final = 0o644


def path_of(file: object) -> str | None:
    """Return the path of a path, a descriptor or an open file; None for a file without a name."""
    if isinstance(file, int):
        try:
            return str(Path(f"/proc/self/fd/{file}").readlink())
        except OSError:
            return None
    if isinstance(file, str | os.PathLike):
        return os.fspath(file)
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else None


def unfinished_name(name: str) -> str:
    """Return a name for the unfinished file of ``name``, different in every attempt."""
    return f"{name}.{uuid.uuid4().hex}.tmp"


def is_unfinished(name: str) -> bool:
    """Return whether this is the name of an unfinished file: one being written, or abandoned."""
    return _UNFINISHED.fullmatch(name) is not None


def make_folders(path: FilePath, mode: int = _FOLDER_MODE) -> None:
    """Make a folder and the missing folders above it; an existing folder keeps its mode.

    Args:
        path: The folder.
        mode: Mode of every new folder, before the umask.

    Raises:
        FileExistsError: A file has the name.
        OSError: A folder cannot be made.
    """
    folder = Path(local_target(path))
    try:
        folder.mkdir(mode, exist_ok=True)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        # Folders above are missing: made first, from the top down.
        make_folders(folder.parent, mode)
        folder.mkdir(mode, exist_ok=True)


def open_emptied(path: FilePath) -> BinaryIO:
    """Open a file for writing, emptied; a new file is writable by its owner only.

    Args:
        path: The file; an existing file keeps its mode.

    Raises:
        OSError: The file cannot be made or opened.
    """
    path = local_target(path)
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, FILE_MODE))
