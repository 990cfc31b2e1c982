"""Where targets write the bytes that they read as files: in memory where there is such a place."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

__all__ = ["place"]

_MEMORY: Final = Path("/dev/shm")


def place(name: str) -> Path:
    """Return a folder of this process, which goes when the process ends."""
    return Path(_temporary().name) / name


@cache
def _temporary() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None)
