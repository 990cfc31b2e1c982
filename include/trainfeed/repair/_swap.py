"""The only steps that change a published folder; each is one rename, durable before the next.

A reader that has the damaged file open keeps it; whoever opens it later gets the published bytes.
What nobody published is moved to ``_trash``, which upkeep deletes three days later.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from trainfeed import faults
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.publication import compare_file
from trainfeed.errors import AccessDeniedError, NotFoundError
from trainfeed.repair._damage_search import mode_of
from trainfeed.storage import posix
from trainfeed.storage.posix import map_errors

__all__ = [
    "age_of",
    "require_changeable",
    "restore_mode",
    "stands_in_the_way",
    "swap_in",
    "throw_out",
    "unchanged_age",
]


def require_changeable(path: Path) -> None:
    """Refuse a version in whose folder this account may not rename files.

    Raises:
        AccessDeniedError: The folder belongs to another account, or its mount is read-only.
    """
    if not os.access(path, os.W_OK | os.X_OK):
        raise AccessDeniedError(
            f"{path}: this account may not change files of the folder, which belongs to uid"
            f" {path.stat().st_uid}; nothing was changed; repair it as the account that builds"
        )


def age_of(path: Path) -> datetime:
    """Return the modification time of a version's folder, by which retention knows its age.

    Raises:
        NotFoundError: The version is gone.
        StorageError: The publication root refused or failed.
    """
    with map_errors(path):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)


@contextmanager
def unchanged_age(path: Path, since: datetime) -> Iterator[None]:
    """Give a version's folder the modification time of before at the end.

    Args:
        path: The folder.
        since: That time.
    """
    try:
        yield
    finally:
        # Gone, if retention took the version meanwhile.
        with suppress(OSError):
            os.utime(path, (path.stat().st_atime, since.timestamp()))


def stands_in_the_way(path: Path) -> bool:
    """Return whether a folder is in the place of a file: no rename puts a file there."""
    return path.is_dir() and not path.is_symlink()


def swap_in(staged: Path, version: Path, name: str, expected: tuple[int, str]) -> None:
    """Rename a staged file into a version, if it has the published size and SHA-256.

    Args:
        staged: The folder of staged files.
        version: Folder of the version.
        name: The file, relative to both.
        expected: Size in bytes and SHA-256 of the manifest.

    Raises:
        FormatError: The staged file has other bytes. Nothing was changed.
        NotFoundError: The version was removed meanwhile.
        StorageError: The file system refused or failed.
    """
    for problem in compare_file(staged / name, *expected):
        raise problem
    target = version / name
    with map_errors(target):
        if target.parent != version:
            target.parent.mkdir(mode=0o755, exist_ok=True)
        faults.point("repair.before_swap")
        (staged / name).replace(target)
    faults.point("repair.after_swap")
    posix.sync_dir(target.parent)


def throw_out(folder: DatasetFolder, version: Path, name: str) -> Path | None:
    """Move a foreign file or folder of a version to ``_trash``; return where it is now.

    Returns:
        Its new path; None if another repair was faster.
    """
    place = folder.trash / uuid.uuid4().hex
    posix.make_public_dir(place)
    moved = place / Path(name).name
    faults.point("repair.before_trash")
    try:
        with map_errors(version / name):
            (version / name).rename(moved)
    except NotFoundError:
        posix.remove_tree(place)
        return None
    faults.point("repair.after_trash")
    posix.sync_dir((version / name).parent)
    return moved


def restore_mode(version: Path, name: str) -> None:
    """Give a file the permissions that it was published with.

    Raises:
        AccessDeniedError: The file belongs to another account.
    """
    path = version / name
    with map_errors(path):
        path.chmod(mode_of(name))
