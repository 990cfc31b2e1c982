"""Publication on a mounted POSIX file system: operations that are atomic and durable.

A version is published by renaming a folder that is complete and synced. The functions for it, in
the order of use: ``probe`` at start-up, ``sync_dir`` before the rename, ``rename_directory`` as the
commit, ``sync_dir`` again as its confirmation; ``create_exclusive`` for plans and boundaries,
``replace_file`` under a ``file_lock`` for pointers.

The functions raise only errors of the ``StorageError`` tree. No flag of ``renameat2`` is used,
because some clients of network file systems accept the flags and ignore them.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from trainfeed.core.datacenters import local_target
from trainfeed.errors import (
    CommitUnknownError,
    ConflictError,
    NotFoundError,
    SnapshotError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files import (
    UnfinishedFile,
    kind_of_errno,
    os_errors,
    storage_error,
    sync_folder,
    write_all,
)
from trainfeed.files.stores.file_system import temporary_path
from trainfeed.files.stores.mounts import file_lock, probe, shared_lock, try_lock

__all__ = [
    "StrPath",
    "create_exclusive",
    "file_lock",
    "make_public_dir",
    "map_errors",
    "probe",
    "remove_tree",
    "rename_directory",
    "replace_file",
    "shared_lock",
    "sync_dir",
    "try_lock",
]

StrPath: TypeAlias = str | os.PathLike[str]

map_errors = os_errors
_SNAPSHOTS: Final = ".snap"
sync_dir = sync_folder

_PUBLIC_MODE: Final = 0o644
_PUBLIC_FOLDER_MODE: Final = 0o755


def make_public_dir(path: StrPath) -> None:
    """Make a folder, and missing parents, that every account can read.

    The mode does not depend on the umask, because other accounts than the publishing one read.
    An existing folder keeps its mode.

    Raises:
        ConflictError: A file has the name.
    """
    path = Path(local_target(path))
    with map_errors(path):
        if path.is_dir():
            return
        make_public_dir(path.parent)
        try:
            path.mkdir()
        except FileExistsError:
            if path.is_dir():
                return
            raise
        # ``mkdir`` applies the umask, ``chmod`` does not.
        path.chmod(_PUBLIC_FOLDER_MODE)


def rename_directory(source: StrPath, target: StrPath) -> None:
    """Rename a folder to a free name: the commit.

    Among any number of callers, on any number of clients, exactly one succeeds. The kernel refuses
    a target with content, but silently replaces an *empty* folder. An existing target is therefore
    looked for first. An empty folder that another program makes between this look and the rename
    is still replaced, and nothing is lost.

    The name is durable after ``sync_dir`` of the target's parent.

    Raises:
        ConflictError: The target exists. Nothing was moved.
        NotFoundError: The source is not there or no folder (a link is none), or the target has no
            parent.
        CommitUnknownError: The rename may have taken place; look, from a new mount if this one is
            broken. Also raised if the source is gone and the target exists.
        UnsuitableStoreError: Source and target are on different file systems or quota realms.
    """
    source, target = Path(local_target(source)), Path(local_target(target))
    _check_source(source, target)
    if _lexists(target):
        raise ConflictError(f"{target}: the name is taken; {source} was left as it is")
    try:
        source.rename(target)
    except OSError as error:
        raise _rename_error(error, source, target) from error


def create_exclusive(
    path: StrPath, data: bytes, *, mode: int = _PUBLIC_MODE, is_public: bool = False
) -> bool:
    """Make a durable file with this content, unless the name is taken.

    The content is complete and synced before it gets the name, so a kill at any time leaves the
    name free or the file whole. The parent must exist.

    Args:
        path: The file.
        data: Its content.
        mode: Permissions, which the umask reduces.
        is_public: Whether every account can read the file, regardless of the umask.

    Returns:
        True if this call made the file; False if a file or folder had the name. The name is
        durable in both cases.
    """
    with _written(path, data, mode, is_public=is_public) as new:
        return new.claim()


def replace_file(
    path: StrPath, data: bytes, *, mode: int = _PUBLIC_MODE, is_public: bool = False
) -> None:
    """Replace the content of a file, durably; a reader gets either the old bytes or the new ones.

    Args:
        path: The file.
        data: Its content.
        mode: Permissions, which the umask reduces.
        is_public: Whether every account can read the file, regardless of the umask.

    Raises:
        ConflictError: A folder has the name.
    """
    with _written(path, data, mode, is_public=is_public) as new:
        new.replace()


def remove_tree(path: StrPath) -> None:
    """Delete a folder with its content, or a file; does nothing if it is not there.

    Symbolic links are deleted and never followed, even if they appear during the deletion.

    Raises:
        SnapshotError: A folder has a snapshot of its own; its files are deleted.
        StorageError: The file system refused.
    """
    path = Path(local_target(path))
    with map_errors(path), suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        try:
            shutil.rmtree(path)
        except OSError as error:
            if error.errno == errno.ENOTEMPTY and (kept := _own_snapshots(path)):
                raise SnapshotError(
                    f"{path} cannot be removed: {kept[0]} is a snapshot of a folder in it"
                    f"{f', and so are {len(kept) - 1} more' if len(kept) > 1 else ''}; all files"
                    f" are gone from the present state; remove the snapshot (rmdir {kept[0]}), then"
                    " run the same command again"
                ) from error
            raise


def _own_snapshots(path: Path) -> list[Path]:
    """Return the snapshots that were made of a folder, or of one in it, and not of one above.

    CephFS shows them in ``.snap``, which no listing has; those of folders above begin with ``_``.
    """
    found = []
    for folder, folders, _ in os.walk(path):
        folders[:] = [name for name in folders if name != _SNAPSHOTS]
        place = Path(folder) / _SNAPSHOTS
        with suppress(OSError):
            found += sorted(each for each in place.iterdir() if not each.name.startswith("_"))
    return found


def _check_source(source: Path, target: Path) -> None:
    try:
        with map_errors(source):
            found = source.lstat()
    except NotFoundError as error:
        if not _lexists(target):
            raise
        raise CommitUnknownError(
            f"{source} is gone and {target} is there: another try, or a repeated request, may have"
            " renamed it; nothing was changed; retry: a retry first looks for the result"
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise NotFoundError(f"{source}: expected a folder, got another kind of file")


def _lexists(path: Path) -> bool:
    with map_errors(path), suppress(FileNotFoundError):
        path.lstat()
        return True
    return False


def _rename_error(error: OSError, source: Path, target: Path) -> StorageError:
    place = f"{source} -> {target}"
    reason = (error.strerror or str(error)).lower()
    # ENOTDIR means a file at the target, or a file among its parents.
    taken = error.errno == errno.ENOTDIR and _is_taken(target)
    kind = ConflictError if taken else kind_of_errno(error.errno)
    if kind is UnsuitableStoreError and error.errno == errno.EXDEV:
        return kind(
            f"{place}: {reason}; staging and versions must lie on one file system, in one subvolume"
            " and one quota realm; nothing was moved"
        )
    if kind is StorageError:
        return CommitUnknownError(
            f"{place}: {reason}; the rename may have taken place; nothing was deleted; look from a"
            " client that works, or retry: a retry first looks for the result"
        )
    return storage_error(kind, place, reason)


def _is_taken(target: Path) -> bool:
    try:
        return _lexists(target)
    except StorageError:
        return False


@contextmanager
def _written(path: StrPath, data: bytes, mode: int, *, is_public: bool) -> Iterator[UnfinishedFile]:
    with UnfinishedFile(path, unfinished=temporary_path(str(path)), mode=mode) as new:
        write_all(new.file, data)
        if is_public:
            new.set_mode(_PUBLIC_MODE)
        yield new
