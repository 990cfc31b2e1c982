"""The code of a job: what its name covers, and what its ranks compare before they run it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from trainfeed.specification import read_module
from trainfeed.storage.posix import map_errors

__all__ = ["code_digest"]


def code_digest(folder: Path) -> str:
    """Digest every Python file of a data set's folder, since a training may import any of them.

    Returns:
        SHA-256 in hex over relative names and contents, in the order of the names. Hidden files
        and folders are left out: nothing can import them.

    Raises:
        StorageError: A file cannot be read.
    """
    digest = hashlib.sha256()
    with map_errors(folder):
        for name in sorted(_names(folder)):
            for part in (os.fsencode(name), read_module(folder / name)):
                digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _names(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*.py"):
        place = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in place.parts):
            yield place.as_posix()
