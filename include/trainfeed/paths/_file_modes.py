"""Folders and files that only their account may write, whatever the umask is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final

from trainfeed.paths._file_names import FilePath

__all__ = ["make_folders", "new_file"]

_FOLDER_MODE: Final = 0o755
_FILE_MODE: Final = 0o644


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


def new_file(path: FilePath, mode: str = "xb", *, buffering: int = -1) -> BinaryIO:
    """Open a file for writing that only its account may write.

    Args:
        path: The file.
        mode: ``xb``, or ``wb`` for one that may be there.
        buffering: As for ``open``.

    Raises:
        OSError: It cannot be made, or with ``xb`` is there.
    """
    return open(path, mode, buffering, opener=_opened)  # type: ignore[return-value]


def _opened(name: str, flags: int) -> int:
    return os.open(name, flags, _FILE_MODE)
