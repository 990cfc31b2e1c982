"""Keyring files: a user's key in a file that only its owner can read, absent or whole."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.paths import UnfinishedFile, os_errors, read_plain, write_all

__all__ = ["require_keyring_place", "write_keyring"]

_MODE: Final = 0o600
_MOST_BYTES: Final = 4096


def require_keyring_place(path: Path, text: str | None) -> None:
    """Refuse a file that has another content, before anything is changed on the cluster.

    Args:
        path: The file.
        text: The content that it may have; None if it must not be there.

    Raises:
        ConflictError: The file has another content.
        NotFoundError: Its folder is not there.
    """
    if not path.parent.is_dir():
        raise NotFoundError(
            f"expected a folder for the keyring at {path.parent}, found none; nothing was changed;"
            " make the folder, or name another file by --keyring"
        )
    if (path.exists() or path.is_symlink()) and not _has(path, text):
        raise ConflictError(
            f"expected no file at {path}, or one with the present key; got another content, perhaps"
            " a key that was revoked; the file was left as it is; remove it, or name another file"
            " by --keyring"
        )


def write_keyring(path: Path, text: str) -> list[str]:
    """Write a keyring file, unless the file has this content; return what was done, in words.

    Raises:
        ConflictError: The file has another content.
        StorageError: The file cannot be written.
    """
    require_keyring_place(path, text)
    if path.exists():
        return _closed(path)
    with UnfinishedFile(path, mode=_MODE) as new:
        write_all(new.file, text.encode())
        if not new.claim():
            raise ConflictError(f"{path} was made meanwhile; run the same command again")
    return [f"{path} written"]


def _closed(path: Path) -> list[str]:
    with os_errors(path):
        if stat.S_IMODE(path.stat().st_mode) & ~_MODE == 0:
            return []
        path.chmod(_MODE)
    return [f"{path} closed to other accounts"]


def _has(path: Path, text: str | None) -> bool:
    found = read_plain(path, follow=False, max_bytes=_MOST_BYTES)
    return text is not None and found == text.encode()
