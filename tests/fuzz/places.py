"""The folder for the files of targets: in memory if the machine has such a folder."""

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
