"""Folders and files that only their account may write, whatever the umask is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final

from trainfeed.paths._file_names import FilePath

__all__ = ["FILE_MODE", "make_folders", "open_emptied"]

_FOLDER_MODE: Final = 0o755
FILE_MODE: Final = 0o644


def make_folders(path: FilePath, mode: int = _FOLDER_MODE) -> None:
    """Make a folder and those above it that are missing; one that is there keeps its mode.

    Args:
        path: The folder.
        mode: Of every folder that is made; the umask takes away from it.

    Raises:
        FileExistsError: The name is a file's.
        OSError: A folder cannot be made.
    """
    folder = Path(path)
    try:
        folder.mkdir(mode, exist_ok=True)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        make_folders(folder.parent, mode)
        folder.mkdir(mode, exist_ok=True)


def open_emptied(path: FilePath) -> BinaryIO:
    """Open a file for writing that only its account may write; what it held is gone.

    Args:
        path: The file; one that is there keeps its mode.

    Raises:
        OSError: It cannot be made or opened.
    """
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, FILE_MODE))
