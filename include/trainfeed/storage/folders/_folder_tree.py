"""The files below a folder of any store; links and special files are refused."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainfeed.errors import ConfigError, FormatError, NotFoundError, UnsuitableStoreError
from trainfeed.paths import listed, os_errors
from trainfeed.storage._base import FileInfo
from trainfeed.storage._location import Location
from trainfeed.storage.folders._folder_manifest import TRANSFER_MANIFEST
from trainfeed.storage.folders._inner_names import check_inner_name

__all__ = ["FolderTree", "folder_tree", "is_local"]


@dataclass(frozen=True)
class FolderTree:
    """The content of a folder at the time of the listing.

    Attributes:
        files: Relative name → facts of each file, without the manifest of the folder.
        folders: Names of the folders in which there is nothing.
    """

    files: dict[str, FileInfo]
    folders: tuple[str, ...]

    @property
    def sizes(self) -> dict[str, int]:
        """Name of each file → its size."""
        return {name: info.size_bytes for name, info in self.files.items()}


def is_local(location: Location) -> bool:
    """Return whether the location is a path of this machine."""
    return location.fs.scheme in {"file", "pfs"}


def folder_tree(folder: Location) -> FolderTree:
    """List a folder with everything below it.

    Raises:
        NotFoundError: The folder is not there, or is a file.
        ConfigError: There is no file in it.
        FormatError: An entry is a link, a pipe or another special file.
        UnsuitableStoreError: The name of an entry is not allowed in a transfer.
        StorageError: The store refused or failed.
    """
    if not folder.stat().is_dir:
        raise NotFoundError(f"{folder.uri}: expected a folder, got a file")
    files: dict[str, FileInfo] = {}
    folders: list[str] = []
    _collect(folder, "", files, folders)
    files.pop(TRANSFER_MANIFEST, None)
    if not files:
        raise ConfigError(
            f"expected files in {folder.uri}, found none; nothing was copied; name the folder that"
            " holds the files"
        )
    return FolderTree(files, tuple(folders))


def _collect(folder: Location, above: str, files: dict[str, FileInfo], folders: list[str]) -> None:
    found = False
    for info in _entries(folder):
        found = True
        name = f"{above}{info.name}"
        try:
            check_inner_name(name)
        except ValueError as error:
            raise UnsuitableStoreError(
                f"{folder.uri}: {error}; nothing was copied; rename it"
            ) from error
        if info.is_dir:
            if name == TRANSFER_MANIFEST:
                raise FormatError("expected a file or nothing, got a folder", path=info.path)
            _collect(folder / info.name, f"{name}/", files, folders)
        else:
            files[name] = info
    if not found and above:
        folders.append(above.removesuffix("/"))


def _entries(folder: Location) -> Iterator[FileInfo]:
    if not is_local(folder):
        yield from folder.list()
        return
    # Not ``list``, which follows links, and leaves out those without a target.
    for path in listed(folder.path):
        yield _local_entry(path)


def _local_entry(path: Path) -> FileInfo:
    with os_errors(path):
        found = path.lstat()
    is_dir = stat.S_ISDIR(found.st_mode)
    if not is_dir and not stat.S_ISREG(found.st_mode):
        raise FormatError(
            "expected files and folders only, got a link or a special file; nothing was copied;"
            " remove it, or copy the file that it points to into its place",
            path=str(path),
        )
    size_bytes = 0 if is_dir else found.st_size
    return FileInfo(path.name, str(path), size_bytes, found.st_mtime_ns // 10**6, is_dir=is_dir)
