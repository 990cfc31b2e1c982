"""What files are called, also before they are whole, and that only their account may write them."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

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
# With hyphens it was written by earlier versions.
_UNFINISHED: Final = re.compile(r".+\.[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\.tmp")
_FOLDER_MODE: Final = 0o755
FILE_MODE: Final = 0o644


def path_of(file: object) -> str | None:
    """Return what to call a path, a descriptor or an open file; None where it has no name."""
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
    """Return what to call a file until it is whole and gets ``name``; no other try has it."""
    return f"{name}.{uuid.uuid4().hex}.tmp"


def is_unfinished(name: str) -> bool:
    """Return whether a file that has this name never became whole, or is still being written."""
    return _UNFINISHED.fullmatch(name) is not None


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
