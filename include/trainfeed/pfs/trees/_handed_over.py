"""Gives new files and folders of an area to the owner of the folder that they are in.

An administrator's command and a file server work as an account that may write every home. What they
make there belongs to the user of the home, who can change it on a mount as well.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["hand_over", "hand_over_folder"]

_Owner = tuple[int, int]
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def hand_over(above: int, fd: int) -> None:
    """Give an open file to the owner of its folder, if this process may; the mode stays.

    Args:
        above: Descriptor of the folder, which may be open for its path only.
        fd: Descriptor of the file.

    Raises:
        OSError: The system failed.
    """
    if (owner := _owner(os.fstat(above))) != _owner(os.fstat(fd)) and _may_give():
        os.fchown(fd, *owner)


def hand_over_folder(above: int, name: str) -> None:
    """Give a folder to the owner of the folder above, if this process may.

    The owner of the folder above may exchange the new folder for anything else, such as a second
    name of a file of another account. So only what was opened as a folder gets another owner.

    Args:
        above: Descriptor of the folder above.
        name: Name of the new folder.

    Raises:
        OSError: The system failed, or a link or a file has the name.
    """
    if _owner(os.fstat(above)) == (os.geteuid(), os.getegid()) or not _may_give():
        return
    fd = os.open(name, _FOLDER, dir_fd=above)
    try:
        hand_over(above, fd)
    finally:
        os.close(fd)


def _owner(found: os.stat_result) -> _Owner:
    return found.st_uid, found.st_gid


def _may_give() -> bool:
    return os.geteuid() == 0
