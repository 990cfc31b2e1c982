"""What files are called, also before they are whole."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path
from typing import Final, TypeAlias

__all__ = ["FilePath", "is_unfinished", "path_of", "unfinished_name"]

FilePath: TypeAlias = str | os.PathLike[str]

# With hyphens it was written by earlier versions.
_UNFINISHED: Final = re.compile(r".+\.[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\.tmp")


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
