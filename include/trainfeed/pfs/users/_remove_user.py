"""Removes a user: first the key, then the sessions that began with it, at last the home, if asked.

Each step looks at what is there, so the same command goes on after a kill at any step.
"""

from __future__ import annotations

import errno
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainfeed import faults
from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.paths import os_errors
from trainfeed.pfs.users._shared_storage import SharedStorage
from trainfeed.pfs.users._user_key import find_key, revoke_key
from trainfeed.pfs.users._user_name import require_user_name
from trainfeed.pfs.users._user_record import RECORDS, record_path
from trainfeed.pfs.users._user_sessions import EndedSessions, end_sessions

__all__ = ["REMOVED", "RemovedUser", "remove_user"]

# No user's name begins with a dot.
REMOVED: Final = ".removed-"


@dataclass(frozen=True)
class RemovedUser:
    """The outcome of ``remove_user``.

    Attributes:
        user: The name.
        had_key: Whether a key was revoked; False if an earlier call did that.
        ended: Clients that were cut off.
        kept_home: Folder of the home, which is kept; None without a home.
        removed_home: Whether a home was removed.
    """

    user: str
    had_key: bool
    ended: EndedSessions
    kept_home: Path | None
    removed_home: bool


def remove_user(storage: SharedStorage, user: str, *, remove_home: bool = False) -> RemovedUser:
    """Revoke a user's key, cut off its clients, and keep or remove the home.

    Args:
        storage: The data centre.
        user: Name of the user.
        remove_home: Whether the home and all of its files are removed.

    Raises:
        NotFoundError: The user has neither a key nor a home.
        ConflictError: The name belongs to a key of another use, which is kept; or the home has
            snapshots.
        StorageError: The cluster or the mount refused or did not answer; the same call goes on.
    """
    require_user_name(user)
    home = storage.folder(storage.layout.home(user))
    renamed = home.with_name(f"{REMOVED}{user}")
    had_key = find_key(storage, user) is not None
    if not (had_key or _is_there(home) or _is_there(renamed)):
        raise NotFoundError(
            f"expected a user {user} in the data centre {storage.layout.datacenter}, found neither"
            f" a key nor {home}; nothing was changed; trainfeed pfs user ls lists the users"
        )
    if had_key:
        revoke_key(storage, user)
    faults.point("user.after_revoke")
    ended = end_sessions(storage, user)
    faults.point("user.after_sessions")
    removed = remove_home and _removed(home, renamed)
    if remove_home:
        RECORDS.lift(record_path(home.parent, user))
    return RemovedUser(user, had_key, ended, home if _is_there(home) else None, removed)


def _removed(home: Path, renamed: Path) -> bool:
    """Rename a home, so that no key has a path to it, then remove it; whether it was there."""
    was_there = _removed_tree(renamed)
    if _is_there(home):
        with os_errors(home):
            home.rename(renamed)
        faults.point("user.after_rename")
        was_there = _removed_tree(renamed)
    return was_there


def _removed_tree(folder: Path) -> bool:
    if not _is_there(folder):
        return False
    try:
        shutil.rmtree(folder)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise ConflictError(
                f"{folder} has snapshots, so it cannot be removed; all of its files are gone from"
                " the present state; remove the snapshots (rmdir FOLDER/.snap/NAME), then run the"
                " same command again"
            ) from error
        with os_errors(folder):
            raise
    return True


def _is_there(folder: Path) -> bool:
    with os_errors(folder):
        try:
            folder.lstat()
        except FileNotFoundError:
            return False
    return True
