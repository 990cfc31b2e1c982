"""Refuses files of quarantined bytes that other accounts could read, or that others have made."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from trainfeed.errors import AccessDeniedError
from trainfeed.storage import posix

__all__ = ["PRIVATE_MODE", "require_private"]

PRIVATE_MODE: Final = 0o600
_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def require_private(
    path: Path,
    found: os.stat_result,
    *,
    owner: Path,
    remedy: str = "compare the version (trainfeed verify)",
) -> None:
    """Refuse an open file unless only its owner has access, and the owner is the builder.

    Args:
        path: The file, for messages.
        found: Facts about the open file.
        owner: The folder whose owner must be the file's owner.
        remedy: What to do about a file of another account.

    Raises:
        AccessDeniedError: Another account has access, or owns the file.
    """
    mode = stat.S_IMODE(found.st_mode)
    if mode & _OF_OTHERS:
        raise AccessDeniedError(
            f"{path}: expected access for its owner alone, because it holds raw bytes of records,"
            f" got mode {mode:04o}; nothing was shown; find out who opened it, then: chmod"
            f" {PRIVATE_MODE:o} {path}"
        )
    with posix.map_errors(owner):
        builder = owner.stat().st_uid
    if found.st_uid != builder:
        raise AccessDeniedError(
            f"{path}: expected a file of the account that owns {owner} (uid {builder}), got one of"
            f" uid {found.st_uid}; nothing was shown; another account has put it there: {remedy}"
        )
