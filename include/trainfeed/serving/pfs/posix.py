"""Trees of POSIX file systems: this machine, and mounted areas confined beneath their folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from trainfeed.core import faults
from trainfeed.core.datacenters import PfsPath
from trainfeed.errors import AccessDeniedError, ConflictError
from trainfeed.files import os_errors
from trainfeed.serving.pfs.posix_files import (
    ParallelCalls,
    PosixSource,
    PosixTarget,
    chunk_digests,
    entry_of,
    hand_over_folder,
    link_file,
    mode_at,
    open_plain,
    require_free,
    sync_folder_at,
)
from trainfeed.serving.pfs.small_files import SmallCalls
from trainfeed.serving.pfs.tree import (
    Entry,
    FileDigests,
    Parts,
    Source,
    SourceState,
    Target,
    address_in_area,
    require_area_names,
    shown_in_area,
)

# --- The common part of trees of POSIX file systems; they differ in how they reach a folder

_FOLDER_MODE: Final = 0o755


class PosixTree(SmallCalls):
    """Files and folders beneath a folder of this machine; every call is one of ``Tree``."""

    def address(self, parts: Parts) -> str:
        """Return a text that is the same for the same place in every process; see ``Tree``."""
        return self.show(parts)

    def stat(self, parts: Parts) -> Entry:
        """Return the entry of a place; see ``Tree``."""
        if not parts:
            with self._folder(()) as folder, os_errors(self.show(())):
                return entry_of("", os.fstat(folder))
        with self._above(parts) as (above, name):
            return entry_of(name, os.stat(name, dir_fd=above, follow_symlinks=self._follows))

    def entries(self, parts: Parts) -> list[Entry]:
        """Return the entries of a folder, sorted by name; see ``Tree``."""
        entries = []
        with self._listed(parts) as found:
            for each in found:
                # One that has gone since the folder was read is not in it any more.
                with suppress(FileNotFoundError):
                    entries.append(entry_of(each.name, each.stat(follow_symlinks=False)))
        return sorted(entries, key=lambda entry: entry.name)

    def make_folder(self, parts: Parts, *, parents: bool = False) -> None:
        """Make a folder; see ``Tree``."""
        self._require_writable(parts)
        if not parts:
            if parents:
                return
            raise ConflictError(f"{self.show(parts)}: the folder is there; nothing was changed")
        if parents and len(parts) > 1:
            self.make_folder(parts[:-1], parents=True)
        with self._above(parts) as (above, name):
            try:
                os.mkdir(name, _FOLDER_MODE, dir_fd=above)
            except FileExistsError:
                if not parents or not self._is_folder(above, name):
                    raise
                return
            if self._hands_over:
                hand_over_folder(above, name)

    def remove(self, parts: Parts, *, recursive: bool = False) -> None:
        """Remove a file, a link or a folder, links never followed; see ``Tree``."""
        self._require_writable(parts)
        self._require_no_root(parts, "removed")
        with self._above(parts) as (above, name):
            is_folder = stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
            if is_folder and not recursive:
                raise ConflictError(
                    f"{self.show(parts)}: expected a file, got a folder; nothing was removed;"
                    " allow that it is removed with everything in it"
                )
            if is_folder:
                shutil.rmtree(name, dir_fd=above)
            else:
                os.unlink(name, dir_fd=above)

    def rename(self, source: Parts, target: Parts, *, replace: bool) -> None:
        """Rename a file or folder in one step; see ``Tree``."""
        for parts in (source, target):
            self._require_writable(parts)
            self._require_no_root(parts, "renamed")
        with self._above(source) as (old, name), self._above(target) as (new, new_name):
            is_folder = stat.S_ISDIR(os.stat(name, dir_fd=old, follow_symlinks=False).st_mode)
            taken = mode_at(new, new_name)
            # A rename would replace an empty folder without a word.
            if taken is not None and (is_folder or stat.S_ISDIR(taken) or not replace):
                raise ConflictError(f"{self.show(target)}: the name is taken; nothing was renamed")
            if is_folder or replace:
                os.rename(name, new_name, src_dir_fd=old, dst_dir_fd=new)
            else:
                link_file((old, name), (new, new_name), shown=self.show(target))
            faults.point("pfs.renamed")
            sync_folder_at(new)
            sync_folder_at(old)

    def sync_names(self, parts: Parts) -> None:
        """Make the names in a folder and in all folders below it durable; see ``Tree``."""
        self._sync_folders(list(self._folders(parts)))

    def sync_names_of(self, files: Sequence[Parts]) -> None:
        """Make the names of files durable; see ``Tree``."""
        self._sync_folders({parts[:-1] for parts in files})

    def open_source(self, parts: Parts) -> Source:
        """Open a plain file for reading; see ``Tree``."""
        self._require_no_root(parts, "read as a file")
        with self._above(parts) as (above, name):
            kept, fd = os.dup(above), -1
            try:
                fd = open_plain(above, name, follows=self._follows, shown=self.show(parts))
                return PosixSource(
                    fd,
                    kept,
                    name,
                    identity=self._identity(parts),
                    shown=self.show(parts),
                    follow=self._follows,
                )
            except BaseException:
                for each in (kept, fd):
                    if each >= 0:
                        os.close(each)
                raise

    def open_target(self, parts: Parts, state: SourceState, *, replace: bool) -> Target:
        """Open the unfinished file of a copy; see ``Tree``."""
        self._require_writable(parts)
        self._require_no_root(parts, "written as a file")
        with self._above(parts) as (above, name):
            require_free(above, name, replace=replace, shown=self.show(parts))
            return PosixTarget(
                os.dup(above),
                name,
                state,
                replace=replace,
                hands_over=self._hands_over,
                shown=self.show(parts),
            )

    def digests(self, parts: Parts) -> FileDigests:
        """Return the digests of a plain file; see ``Tree``."""
        self._require_no_root(parts, "read as a file")
        with self._above(parts) as (above, name):
            fd = open_plain(above, name, follows=self._follows, shown=self.show(parts))
            try:
                num_bytes = os.fstat(fd).st_size
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                return FileDigests(num_bytes, chunk_digests(fd, num_bytes, self.show(parts)))
            finally:
                os.close(fd)

    def _folders(self, parts: Parts) -> Iterator[Parts]:
        """Yield a folder and all folders below it."""
        yield parts
        with self._listed(parts) as found:
            names = [each.name for each in found if each.is_dir(follow_symlinks=False)]
        for name in names:
            yield from self._folders((*parts, name))

    def _sync_folders(self, folders: Collection[Parts]) -> None:
        with ParallelCalls(len(folders), is_far=self._is_far) as calls:
            calls.each(self._synced_folder, folders)

    def _synced_folder(self, parts: Parts) -> None:
        with self._folder(parts) as folder, os_errors(self.show(parts)):
            sync_folder_at(folder)

    @contextmanager
    def _listed(self, parts: Parts) -> Iterator[Iterator[os.DirEntry[str]]]:
        with self._folder(parts) as folder, os_errors(self.show(parts)):
            fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
            try:
                with os.scandir(fd) as found:
                    yield found
            finally:
                os.close(fd)

    def _is_folder(self, above: int, name: str) -> bool:
        return stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=self._follows).st_mode)

    def _identity(self, parts: Parts) -> str:
        """Return the identity of a source: digits of the digest of its place."""
        text = self.address(parts).encode(errors="surrogateescape")
        return hashlib.sha256(text).hexdigest()[:32]

    @contextmanager
    def _folder(self, parts: Parts) -> Iterator[int]:
        with os_errors(self.show(parts)):
            fd = self._open_folder(parts)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def _above(self, parts: Parts) -> Iterator[tuple[int, str]]:
        """Yield the folder above a place, and the last name; errors name the place."""
        self.require_names(parts)
        with os_errors(self.show(parts)), self._folder(parts[:-1]) as above:
            yield above, parts[-1]


# --- The files of this machine, as ``cp`` sees them: links are followed, and nothing is confined

_PATH_ONLY: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class LocalTree(PosixTree):
    """Files of this machine beneath a folder, which ``..`` and links may leave.

    Links on the way and at the end of a place are followed, as ``cp`` does; ``entries`` shows them
    as links.

    Args:
        base: Folder that places begin at; None for the working folder.
    """

    _follows = True
    _hands_over = False
    _is_far = False

    def __init__(self, base: Path | None = None) -> None:
        self._base = Path() if base is None else base

    def show(self, parts: Parts) -> str:
        """Return the path of a place."""
        return str(self._base.joinpath(*parts))

    def require_names(self, parts: Parts) -> None:
        """Allow every name: the file system decides."""

    def address(self, parts: Parts) -> str:
        """Return the absolute path of a place, links resolved."""
        return str(self._base.joinpath(*parts).resolve())

    def open_target(self, parts: Parts, state: SourceState, *, replace: bool) -> Target:
        """Open the unfinished file of a copy beside what a link points to; see ``Tree``."""
        path = self._base.joinpath(*parts)
        if parts and path.is_symlink():
            # As with cp, the file that the link points to is replaced, and the link stays.
            return LocalTree(Path("/")).open_target(
                path.resolve().parts[1:], state, replace=replace
            )
        return super().open_target(parts, state, replace=replace)

    def sync_names_of(self, files: Sequence[Parts]) -> None:
        """Make the names of files, or of the files that links point to, durable; see ``Tree``."""
        paths = {self._base.joinpath(*parts).resolve() for parts in files}
        PosixTree.sync_names_of(LocalTree(Path("/")), [path.parts[1:] for path in paths])

    def _require_writable(self, parts: Parts) -> None:
        """Allow every change: the account of the process decides."""

    def _open_folder(self, parts: Parts) -> int:
        return os.open(self.show(parts), _PATH_ONLY)


# --- An area of shared storage that is mounted here, confined beneath its folder


class MountedTree(PosixTree):
    """A home or the public area beneath a folder of this machine.

    Args:
        root: The folder, which may be a link itself.
        area: The path that users have for it; its parts are empty.
        read_only: Whether every change is refused.
        is_current: Whether ``pfs://`` paths are those of this data centre, so that messages may
            leave it out.
    """

    _follows = False
    _hands_over = True
    _is_far = True

    def __init__(
        self, root: Path, area: PfsPath, *, read_only: bool = False, is_current: bool = True
    ) -> None:
        self._root = root
        self._area = area
        self._read_only = read_only
        self._is_current = is_current

    def show(self, parts: Parts) -> str:
        """Return the path of a place, as ``pfs://…`` in the current data centre."""
        return shown_in_area(self._area, parts, is_current=self._is_current)

    def require_names(self, parts: Parts) -> None:
        """Refuse names that shared storage does not allow; see ``Tree``."""
        require_area_names(self._area, parts, is_current=self._is_current)

    def address(self, parts: Parts) -> str:
        """Return the complete path of a place, which a server of its data centre has too."""
        return address_in_area(self._area, parts)

    def _require_writable(self, parts: Parts) -> None:
        if self._read_only:
            raise AccessDeniedError(
                f"{self.show(parts)}: expected a place that may be changed, got one that is read"
                " only; nothing was changed; choose a place below pfs://home"
            )

    def _open_folder(self, parts: Parts) -> int:
        # Names are checked before the first of them is opened.
        self.require_names(parts)
        shown = self.show(parts)
        fd = self._open_root()
        for name in parts:
            above = fd
            try:
                fd = self._entered(above, name, shown)
            finally:
                os.close(above)
        return fd

    def _open_root(self) -> int:
        return os.open(self._root, _PATH_ONLY)

    def _entered(self, above: int, name: str, shown: str) -> int:
        try:
            return os.open(name, _PATH_ONLY | os.O_NOFOLLOW, dir_fd=above)
        except NotADirectoryError:
            found = os.stat(name, dir_fd=above, follow_symlinks=False)
            if not stat.S_ISLNK(found.st_mode):
                raise
            raise AccessDeniedError(
                f"{shown}: {name!r} is a link, and links are not followed on shared storage;"
                " nothing was read or written; name the folder itself"
            ) from None
