"""Kinds of entries of a POSIX folder, and the opening of files that refuses all other kinds."""

from __future__ import annotations

import os
import stat
from typing import Final

from trainfeed.errors import AccessDeniedError, ConflictError, FormatError
from trainfeed.pfs.trees._naming import mode_at
from trainfeed.pfs.trees._tree_values import Entry, Kind

__all__ = ["entry_of", "open_plain", "require_free"]

_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def entry_of(name: str, found: os.stat_result) -> Entry:
    """Return the entry of a name."""
    kind = _kind_of(found.st_mode)
    return Entry(name, kind, found.st_size if kind is Kind.FILE else 0, found.st_mtime_ns)


def open_plain(above: int, name: str, *, follows: bool, shown: str) -> int:
    """Open a plain file for reading, without waiting for a pipe; return its descriptor.

    Args:
        above: Descriptor of the folder that holds it.
        name: Its name.
        follows: Whether a link is followed.
        shown: Its place, for messages.

    Raises:
        AccessDeniedError: A link has the name, and is not followed.
        FormatError: The name is not that of a plain file.
        OSError: The system refused or failed.
    """
    if not follows:
        _require_no_link(above, name, shown)
    fd = os.open(name, _READ if follows else _READ | os.O_NOFOLLOW, dir_fd=above)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FormatError("expected a plain file, got another kind", path=shown)
    return fd


def require_free(above: int, name: str, *, replace: bool, shown: str) -> None:
    """Refuse a target that is a folder or a link, or is not to be replaced.

    Raises:
        ConflictError: The name is taken.
    """
    mode = mode_at(above, name)
    if mode is None or (replace and stat.S_ISREG(mode)):
        return
    expected = "a free name or a plain file" if replace else "a free name"
    raise ConflictError(
        f"{shown}: expected {expected}, got {_kind_of(mode)}; nothing was changed; choose another"
        " name, or remove what has this one"
    )


def _require_no_link(above: int, name: str, shown: str) -> None:
    # Only for the message: the flag of the opening refuses a link that comes here later.
    if stat.S_ISLNK(mode_at(above, name) or 0):
        raise AccessDeniedError(
            f"{shown} is a link, and links are not followed on shared storage; nothing was read;"
            " name the file itself"
        )


def _kind_of(mode: int) -> Kind:
    kinds = {stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.FOLDER, stat.S_IFLNK: Kind.LINK}
    return kinds.get(stat.S_IFMT(mode), Kind.OTHER)
