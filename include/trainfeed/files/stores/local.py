"""``file://`` and ``pfs://``: files of this machine, and of file systems mounted on it."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final

from trainfeed.core.datacenters import local_source, local_target
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.files import TargetFile, UnfinishedFile, make_folders, os_errors, plain_fd
from trainfeed.files.stores import posix
from trainfeed.files.stores.file_system import (
    FILE_MODE,
    FOLDER_MODE,
    FileInfo,
    FileInfos,
    Inode,
    Wanted,
    has_file,
    refuse_root,
    temporary_path,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


# --- ``file://``: paths of this machine, with mounted network file systems

# Larger reads bypass the buffer. A larger buffer would cost time for small reads in many places.
_READ_BUFFER_BYTES: Final = 1 << 16
_WRITE_BUFFER_BYTES: Final = 1 << 20
# Why a symbolic link cannot be followed: its target, or a folder on the way, is not there or is a
# file; the way is a loop.
_NOWHERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_ODDITIES: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True)
class LocalFileSystem:
    """Paths of this machine; see ``FileSystem`` for the contract of the methods."""

    scheme: ClassVar[str] = "file"

    def uri(self, path: str) -> str:
        """Return ``file://`` and the unchanged path."""
        return f"file://{path}"

    def open_read(self, path: str) -> BinaryIO:
        """Open a file for reading."""
        with os_errors(path):
            try:
                source = _Source(path, "rb", opener=_open_old)
            except FormatError as error:
                raise NotFoundError(f"{path}: {error.args[0]}") from error
        return io.BufferedReader(source, _READ_BUFFER_BYTES)

    def open_write(self, path: str) -> BinaryIO:
        """Create a file; ``close`` syncs it and its folder."""
        try:
            target = _Target(path, mode=FILE_MODE)
        except NotFoundError:
            self.make_dir(str(Path(path).parent))
            target = _Target(path, mode=FILE_MODE)
        return io.BufferedWriter(target, _WRITE_BUFFER_BYTES)

    def stat(self, path: str) -> FileInfo:
        """Return facts about a file or folder."""
        with os_errors(path):
            return _file_info(path, Path(path).stat())

    def exists(self, path: str) -> bool:
        """Return whether the path exists."""
        return has_file(self, path)

    def list(self, path: str, wanted: Wanted | None = None, *, broken: bool = False) -> FileInfos:
        """Return the entries of a folder."""
        infos = []
        with os_errors(path):
            for child in _children(path):
                if wanted is not None and not wanted(child.name):
                    continue
                try:
                    info = _file_info(child.path, child.stat())
                except OSError as error:
                    found = _broken_link(Path(child), error) if broken else None
                    if found is not None:
                        infos.append(found)
                    elif not isinstance(error, FileNotFoundError):
                        raise
                    continue  # deleted meanwhile, or a broken link
                # A link matters to those who go down, as a loop or a way out, and to those who
                # read every file once.
                infos.append(replace(info, is_link=True) if child.is_symlink() else info)
        return sorted(infos, key=lambda info: info.name)

    def checksum(self, path: str) -> str | None:
        """Return None: the file would have to be read."""
        self.stat(path)
        return None

    def is_open(self, path: str) -> bool | None:
        """Return False: every write shows in length and time."""
        self.stat(path)
        return False

    def closed_files(self, path: str, entries: FileInfos) -> Set[str]:  # noqa: ARG002
        """Return nothing: to look at a file costs as little as to look at its folder."""
        return frozenset()

    def make_dir(self, path: str) -> None:
        """Make a folder and its missing parents."""
        with os_errors(path):
            make_folders(Path(path), FOLDER_MODE)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder to a free name."""
        with os_errors(source):
            is_dir = stat.S_ISDIR(Path(source).lstat().st_mode)
        if is_dir:
            posix.rename_directory(source, target)
        else:
            # Link and unlink, because a rename would replace an existing file. A kill between the
            # two leaves both names.
            with os_errors(target):
                Path(target).hardlink_to(source)
                Path(source).unlink()
        posix.sync_dir(Path(target).parent)

    def replace(self, source: str, target: str) -> None:
        """Rename a file, replacing the file that has the name."""
        with os_errors(target):
            Path(source).replace(target)
        posix.sync_dir(Path(target).parent)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or folder."""
        refuse_root(path)
        if recursive:
            posix.remove_tree(path)
            return
        try:
            with os_errors(path):
                _delete_one(Path(path))
        except NotFoundError:
            return

    def write_atomic(self, path: str, write: Callable[[BinaryIO], None]) -> None:
        """Write a file that appears when it is complete."""
        self.make_dir(str(Path(path).parent))
        with UnfinishedFile(
            path,
            unfinished=temporary_path(path),
            mode=FILE_MODE,
            buffer_bytes=_WRITE_BUFFER_BYTES,
        ) as new:
            write(new.file)
            new.replace()

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Make a file with this content, unless the name is taken."""
        self.make_dir(str(Path(path).parent))
        return posix.create_exclusive(path, data, mode=FILE_MODE)

    def free_bytes(self, path: str) -> int | None:
        """Return the bytes that an ordinary user can still write; a quota may leave less."""
        place = Path(path)
        while not place.exists() and place != place.parent:
            place = place.parent
        with os_errors(path):
            usage = os.statvfs(place)
        return usage.f_bavail * usage.f_frsize


class _Source(io.FileIO):
    """A file whose read errors name the path."""

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        with os_errors(str(self.name)):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with os_errors(str(self.name)):
            return super().readall()


class _Target(TargetFile):
    """A file that is on disk when ``close`` returns."""

    def close(self) -> None:
        if self.closed:
            return
        with os_errors(str(self.name)):
            try:
                # Not repeated after a failure: a second fsync would succeed although data is lost.
                os.fsync(self.fileno())
            finally:
                super().close()
        posix.sync_dir(Path(str(self.name)).parent)


def _open_old(path: str, _flags: int) -> int:
    return plain_fd(path, follow=True)


def _children(path: str) -> list[os.DirEntry[str]]:
    with os.scandir(path) as found:
        return list(found)


def _broken_link(path: Path, error: OSError) -> FileInfo | None:
    """Return the facts about a symbolic link that leads nowhere; None if there is none."""
    if error.errno not in _NOWHERE:
        return None
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISLNK(found.st_mode):
        return None
    info = _file_info(str(path), found)
    return replace(info, is_link=True, oddity="a link that leads nowhere")


def _file_info(path: str, found: os.stat_result) -> FileInfo:
    is_dir = stat.S_ISDIR(found.st_mode)
    return FileInfo(
        name=Path(path).name,
        path=path,
        size_bytes=0 if is_dir else found.st_size,
        modified_ms=found.st_mtime_ns // 1_000_000,
        is_dir=is_dir,
        file_id=found.st_ino,
        inode=Inode(found.st_dev, found.st_ino, found.st_nlink),
        oddity=_ODDITIES.get(stat.S_IFMT(found.st_mode)),
    )


def _delete_one(path: Path) -> None:
    if stat.S_ISDIR(path.lstat().st_mode):
        path.rmdir()
    else:
        path.unlink()


# --- ``pfs://``: files of shared storage on a mount of this machine


@dataclass(frozen=True)
class SharedFileSystem(LocalFileSystem):
    """One area of a data centre; see ``FileSystem`` for the contract of the methods.

    Attributes:
        area: ``pfs://home`` or ``pfs://public``.
        folder: Folder of this machine on which the area is mounted; paths begin with it.
    """

    area: str
    folder: str
    scheme: ClassVar[str] = "pfs"

    def uri(self, path: str) -> str:
        """Return the short path, which is read back wherever the area is mounted."""
        return f"{self.area}{path.removeprefix(self.folder)}"

    def open_read(self, path: str) -> BinaryIO:
        """Open a file for reading."""
        return super().open_read(self._source(path))

    def open_write(self, path: str) -> BinaryIO:
        """Create a file; ``close`` syncs it and its folder."""
        return super().open_write(self._target(path))

    def stat(self, path: str) -> FileInfo:
        """Return facts about a file or folder."""
        return super().stat(self._source(path))

    def list(self, path: str, wanted: Wanted | None = None, *, broken: bool = False) -> FileInfos:
        """Return the entries of a folder."""
        return super().list(self._source(path), wanted, broken=broken)

    def make_dir(self, path: str) -> None:
        """Make a folder and its missing parents."""
        super().make_dir(self._target(path))

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder to a free name."""
        super().rename(self._target(source), self._target(target))

    def replace(self, source: str, target: str) -> None:
        """Rename a file, replacing the file that has the name."""
        super().replace(self._target(source), self._target(target))

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or folder, never the area itself."""
        refuse_root(path)
        refuse_root(self._checked(path).removeprefix(self.area))
        super().delete(self._target(path), recursive=recursive)

    def write_atomic(self, path: str, write: Callable[[BinaryIO], None]) -> None:
        """Write a file that appears when it is complete."""
        super().write_atomic(self._target(path), write)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Make a file with this content, unless the name is taken."""
        return super().create_exclusive(self._target(path), data)

    def _source(self, path: str) -> str:
        return local_source(self._checked(path))

    def _target(self, path: str) -> str:
        return local_target(self._checked(path))

    def _checked(self, path: str) -> str:
        if path != self.folder and not path.startswith(f"{self.folder}/"):
            raise ConfigError(
                f"expected a path below {self.folder}, which is {self.area}, got {path}; nothing"
                " was read or written"
            )
        return self.uri(path)
