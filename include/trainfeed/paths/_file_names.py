"""What files are called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

__all__ = ["FilePath", "path_of"]

FilePath: TypeAlias = str | os.PathLike[str]


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
