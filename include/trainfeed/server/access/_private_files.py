"""Reads files that only one account may know: keys, tokens and their digests."""

from __future__ import annotations

import os
import stat
from typing import Final

from trainfeed.errors import ConfigError, FormatError, StorageError
from trainfeed.paths import FilePath, open_plain

__all__ = ["read_private"]

# Other accounts may do nothing with the file, and its group may at most read it.
_REFUSED_MODE: Final = stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO


def read_private(path: FilePath, what: str, *, max_bytes: int) -> bytes:
    """Return the content of a file that other accounts cannot read or change.

    Links are followed, because clusters mount secrets as links.

    Args:
        path: The file.
        what: Its content, for messages.
        max_bytes: A larger file is refused.

    Raises:
        ConfigError: The file is missing, too large, no plain file, or open to other accounts; the
            message has nothing of its content.
    """
    try:
        with open_plain(path, follow=True) as file:
            _require_closed(path, what, os.fstat(file.fileno()))
            data = file.read(max_bytes + 1)
    except (FormatError, StorageError) as error:
        raise ConfigError(f"cannot read {what}: {error}") from error
    if len(data) > max_bytes:
        raise ConfigError(f"expected at most {max_bytes} bytes of {what} in {path}, got more")
    return data


def _require_closed(path: FilePath, what: str, found: os.stat_result) -> None:
    if found.st_mode & _REFUSED_MODE or found.st_uid not in (0, os.geteuid()):
        raise ConfigError(
            f"expected {path} with {what} to be closed to other accounts, got mode"
            f" {stat.S_IMODE(found.st_mode):04o} of user {found.st_uid}; run: chmod 600 {path}"
        )
