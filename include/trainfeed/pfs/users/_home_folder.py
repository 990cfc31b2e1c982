"""Folders of users and of the public: made with a namespace before their first file.

A file keeps the namespace of the folder it was made in, for ever. A folder that has files of
another namespace, or of none, is therefore refused, and not changed. A namespace that a user
removed from the folder (Ceph 16 lets every key that reads a folder do so) is put back.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from trainfeed import faults
from trainfeed.errors import ConflictError
from trainfeed.paths import os_errors, walk
from trainfeed.pfs.users._folder_attributes import (
    QUOTA_BYTES,
    QUOTA_FILES,
    attribute,
    number,
    set_attribute,
)
from trainfeed.pfs.users._shared_storage import SharedStorage
from trainfeed.pfs.users._user_record import NAMESPACE, RECORDS, UserRecord, record_path

__all__ = ["HomeWish", "prepare_home", "prepare_public"]

_FILE_NAMESPACE: Final = "ceph.file.layout.pool_namespace"
_HOME_MODE: Final = 0o700
_SHARED_MODE: Final = 0o755


@dataclass(frozen=True)
class HomeWish:
    """Properties that an administrator asks for; None leaves a property as it is.

    Attributes:
        quota_bytes: Most bytes of files; 0 for no limit.
        quota_files: Most files and folders; 0 for no limit.
        uid: Number of the owning account.
        gid: Number of the owning group.
    """

    quota_bytes: int | None = None
    quota_files: int | None = None
    uid: int | None = None
    gid: int | None = None


def prepare_public(storage: SharedStorage) -> tuple[str, ...]:
    """Make the folders above homes and the public folder; return the changes, in words.

    Raises:
        ConflictError: The public folder has files that are not in the public namespace.
        StorageError: The mount refused.
    """
    layout, made = storage.layout, []
    for path in (str(Path(layout.public).parents[1]), str(Path(layout.public).parent)):
        made += _made(storage.folder(path), path, _SHARED_MODE)
    made += _made(storage.folder(layout.homes), layout.homes, _SHARED_MODE)
    storage.require_path(layout.homes)
    made += _made(storage.folder(layout.public), layout.public, _SHARED_MODE)
    own = layout.public_namespace
    made += _named(storage, layout.public, own, lambda namespace: namespace == own)
    return tuple(made)


def prepare_home(storage: SharedStorage, user: str, wish: HomeWish) -> tuple[str, ...]:
    """Make a user's home with a namespace of its own, owner and quotas; return the changes.

    Quotas and a namespace that the user removed are put back, as the record of the user has them.

    Raises:
        ConflictError: The home has files without a namespace of this user.
        FormatError: The record of the user is damaged.
        StorageError: The mount refused.
    """
    path = storage.layout.home(user)
    folder = storage.folder(path)
    record_file = record_path(storage.folder(storage.layout.homes), user)
    if not os.path.lexists(folder):
        # A record that is left is that of another home, whose namespace a new one must not get.
        RECORDS.lift(record_file)
    changes = _made(folder, path, _HOME_MODE)
    faults.point("user.after_folder")
    before = RECORDS.read(record_file, user=user)
    new, is_own = storage.layout.new_namespace(user), partial(storage.layout.is_namespace, user)
    new = before.namespace if before is not None else new
    changes += _named(storage, path, new, is_own)
    faults.point("user.after_namespace")
    changes += _owned(folder, wish)
    limits = dict[str, int]()
    for name, asked, given in (
        (QUOTA_BYTES, wish.quota_bytes, before.quota_bytes if before else None),
        (QUOTA_FILES, wish.quota_files, before.quota_files if before else None),
    ):
        present = number(folder, name)
        limit = limits[name] = next(each for each in (asked, given, present) if each is not None)
        if present != limit:
            set_attribute(folder, name, str(limit))
            changes.append(f"{name} {limit or 'without a limit'}")
    faults.point("user.after_quota")
    namespace = attribute(folder, NAMESPACE)
    record = UserRecord(user, namespace, limits[QUOTA_BYTES], limits[QUOTA_FILES])
    RECORDS.replace(record_file, record)
    record_file.parent.chmod(_HOME_MODE)  # regardless of the umask
    return tuple(changes)


def _made(folder: Path, path: str, mode: int) -> list[str]:
    with os_errors(folder):
        try:
            found = folder.lstat()
        except FileNotFoundError:
            folder.mkdir(mode)
            folder.chmod(mode)  # regardless of the umask
            return [f"{path} made"]
    if not stat.S_ISDIR(found.st_mode):
        raise ConflictError(
            f"expected a folder at {folder}, got another kind of file; no key was made or changed;"
            " move it away, then run the same command again"
        )
    return []


def _named(storage: SharedStorage, path: str, new: str, is_own: Callable[[str], bool]) -> list[str]:
    """Give a folder a namespace of its own, that of its files or else ``new``."""
    folder = storage.folder(path)
    present = attribute(folder, NAMESPACE)
    if is_own(present):
        return []
    found = _namespaces_below(folder)
    foreign = {namespace: file for namespace, file in found.items() if not is_own(namespace)}
    if foreign or len(found) > 1:
        namespace, file = next(iter((foreign or found).items()))
        raise ConflictError(
            f"expected all files below {folder} in one namespace of its own, got {file} in"
            f" {namespace or 'no namespace'}, whose objects other keys may read; no key was made or"
            " changed; rename the folder, run the same command again, copy the files into the new"
            " folder with cp -a, and remove the renamed one"
        )
    namespace = next(iter(found), new)
    set_attribute(folder, NAMESPACE, namespace)
    return [f"{path} has the namespace {namespace}{' again' if found else ''}"]


def _namespaces_below(folder: Path) -> dict[str, Path]:
    """Return the namespaces of all files below a folder, each with one file."""
    found: dict[str, Path] = {}
    for path in walk(folder):
        with os_errors(path):
            is_file = stat.S_ISREG(path.lstat().st_mode)
        if is_file:
            found.setdefault(attribute(path, _FILE_NAMESPACE), path)
    return found


def _owned(folder: Path, wish: HomeWish) -> list[str]:
    with os_errors(folder):
        found = folder.lstat()
        uid = found.st_uid if wish.uid is None else wish.uid
        gid = found.st_gid if wish.gid is None else wish.gid
        if (uid, gid) == (found.st_uid, found.st_gid):
            return []
        os.chown(folder, uid, gid, follow_symlinks=False)
    return [f"owner {uid}:{gid}"]
