"""The rule for names of files inside a folder that travels: relative, plain, and not too long."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

__all__ = ["check_inner_name"]

_MOST_CHARS: Final = 200
_MOST_FOLDERS: Final = 16


def check_inner_name(name: str) -> str:
    """Return ``name`` if it is a relative POSIX path of a file or folder below another folder.

    Raises:
        ValueError: The path is absolute or empty, has ``.`` or ``..``, is too long or too deep, or
            is not printable.
    """
    parts = PurePosixPath(name).parts
    is_plain = PurePosixPath(name).as_posix() == name and not name.startswith("/")
    is_plain = is_plain and name not in {"", "."} and ".." not in parts
    if not is_plain or not name.isprintable() or len(parts) > _MOST_FOLDERS:
        raise ValueError(f"expected a relative path of a file, got {name[:_MOST_CHARS]!r}")
    if any(len(part.encode()) > _MOST_CHARS for part in parts):
        raise ValueError(f"expected names of at most {_MOST_CHARS} bytes, got {name[:80]!r}")
    return name
