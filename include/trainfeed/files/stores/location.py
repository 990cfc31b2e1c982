"""A path with its file system, and the clock of a store against that of this machine."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import BinaryIO, Final, Self

from trainfeed.core.datacenters import is_shared, shared_place
from trainfeed.errors import (
    ConfigError,
    FormatError,
    NotFoundError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.files import unfinished_name
from trainfeed.files.stores.file_system import (
    FileInfo,
    FileInfos,
    FileSystem,
    RenamingFiles,
    Wanted,
)
from trainfeed.files.stores.local import LocalFileSystem, SharedFileSystem

# --- Locations: a path with its file system, which stages use instead of paths and clients

_AUTHORITY: Final = re.compile(
    r"(?:(?P<user>[A-Za-z0-9._-]+)@)?"
    r"(?P<address>(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(?P<port>:[0-9]{1,5})?)"
)
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_MAX_READ_BYTES: Final = 64 << 20
_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, eq=False)
class Location:
    """A path of a file system.

    The methods are those of ``FileSystem``, at this path. Locations compare, hash and pickle.

    Attributes:
        fs: The file system.
        path: Absolute path in it.
    """

    fs: FileSystem
    path: str

    @classmethod
    def parse(cls, uri: str) -> Location:
        """Return the location of a URI or an absolute local path, without access to a file system.

        The forms are ``/data/x`` and ``file:///data/x``; ``hdfs://host:port/x``, or
        ``hdfs://service/x`` with a service of the Hadoop configuration;
        ``webhdfs://[user@]host:port/x``; ``s3://bucket/x``; ``pfs://home/x`` and
        ``pfs://public/x``, which ``~/.trainfeed/config`` has to know. An hdfs URI has no user,
        because that client knows only ``HADOOP_USER_NAME``. The path is literal.

        Raises:
            ConfigError: ``uri`` has none of these forms, or a ``.`` or ``..`` component.
        """
        if uri.startswith("/"):
            return cls(LocalFileSystem(), _normal(uri, uri))
        if is_shared(uri):
            place = shared_place(uri)
            return cls(SharedFileSystem(place.area, place.folder), place.path)
        scheme, separator, rest = uri.partition("://")
        authority, slash, path = rest.partition("/")
        if not separator:
            raise ConfigError(f"expected an absolute path or a URI, got {_shown(uri)!r}")
        fs = _file_system(scheme, authority, _shown(rest).partition("/")[0])
        return cls(fs, _normal(slash + path, f"{scheme}://…/{_shown(path)}"))

    @property
    def uri(self) -> str:
        """The URI that ``parse`` turns into this location."""
        return self.fs.uri(self.path)

    @property
    def name(self) -> str:
        """Last component of the path; empty for the root, and for an area of shared storage."""
        return "" if self._is_area else self.path.rpartition("/")[2]

    @property
    def parent(self) -> Self:
        """The folder of this location; the root, or an area of shared storage, is its own."""
        return self if self._is_area else self._at(self.path.rpartition("/")[0] or "/")

    @property
    def _is_area(self) -> bool:
        return isinstance(self.fs, SharedFileSystem) and self.path == self.fs.folder

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Location):
            return NotImplemented
        return (self.fs, self.path) == (other.fs, other.path)

    def __hash__(self) -> int:
        return hash((self.fs, self.path))

    def __truediv__(self, name: str) -> Self:
        if not name or any(part in {"", ".", ".."} for part in name.split("/")) or "\0" in name:
            raise ConfigError(f"expected a relative path below {self.uri}, got {name!r}")
        return self._at(f"{self.path.rstrip('/')}/{name}")

    def _at(self, path: str) -> Self:
        return type(self)(self.fs, path)

    def open_read(self) -> BinaryIO:
        """Open the file for reading; see ``FileSystem.open_read``."""
        return self.fs.open_read(self.path)

    def open_write(self) -> BinaryIO:
        """Create the file and open it for writing; see ``FileSystem.open_write``."""
        return self.fs.open_write(self.path)

    def read_bytes(self, *, max_bytes: int = _MAX_READ_BYTES) -> bytes:
        """Read a whole file that should be small.

        Raises:
            NotFoundError: The file is not there.
            FormatError: The file is larger than ``max_bytes``.
        """
        pieces, left = [], max_bytes + 1
        with self.open_read() as file:
            # In pieces, so that memory is taken for the actual size only.
            while left and (piece := file.read(min(left, _PIECE_BYTES))):
                pieces.append(piece)
                left -= len(piece)
        data = b"".join(pieces)
        if len(data) > max_bytes:
            raise FormatError(f"expected at most {max_bytes} bytes, got more", path=self.uri)
        return data

    def write_atomic(self, write: Callable[[BinaryIO], None]) -> None:
        """Write a file that appears when it is complete; see ``FileSystem.write_atomic``."""
        self.fs.write_atomic(self.path, write)

    def create_exclusive(self, data: bytes) -> bool:
        """Make the file unless the name is taken; see ``FileSystem.create_exclusive``."""
        return self.fs.create_exclusive(self.path, data)

    def stat(self) -> FileInfo:
        """Return facts about the file or folder; see ``FileSystem.stat``."""
        return self.fs.stat(self.path)

    def exists(self) -> bool:
        """Return whether the path exists; see ``FileSystem.exists``."""
        return self.fs.exists(self.path)

    def list(self, wanted: Wanted | None = None, *, broken: bool = False) -> FileInfos:
        """Return the entries of the folder, sorted by name; see ``FileSystem.list``."""
        return self.fs.list(self.path, wanted, broken=broken)

    def checksum(self) -> str | None:
        """Return the checksum that the file system has; see ``FileSystem.checksum``."""
        return self.fs.checksum(self.path)

    def is_open(self) -> bool | None:
        """Return whether a writer has the file open; see ``FileSystem.is_open``."""
        return self.fs.is_open(self.path)

    def closed_files(self, entries: FileInfos) -> Set[str]:
        """Return files of the folder that are known as closed; see ``FileSystem.closed_files``."""
        return self.fs.closed_files(self.path, entries)

    def make_dir(self) -> None:
        """Make the folder and its parents; see ``FileSystem.make_dir``."""
        self.fs.make_dir(self.path)

    def delete(self, *, recursive: bool = False) -> None:
        """Delete the file or folder, if there is one; see ``FileSystem.delete``."""
        self.fs.delete(self.path, recursive=recursive)

    def free_bytes(self) -> int | None:
        """Return the bytes that can still be written here; see ``FileSystem.free_bytes``."""
        return self.fs.free_bytes(self.path)

    @property
    def has_rename(self) -> bool:
        """Whether the file system renames files and folders."""
        return isinstance(self.fs, RenamingFiles)

    def move(self, target: Location) -> None:
        """Give a file another name, from one that is there; it appears there whole.

        A file system without a rename copies the bytes, and deletes this file after it: a kill
        leaves both.

        Raises:
            ConflictError: The target is a folder.
            NotFoundError: The file is not there.
        """
        if isinstance(self.fs, RenamingFiles):
            RenamingLocation(self.fs, self.path).replace(target)
            return
        with self.open_read() as source:
            target.write_atomic(lambda file: shutil.copyfileobj(source, file, _PIECE_BYTES))
        self.delete()

    def renaming(self, what: str) -> RenamingLocation:
        """Return this location for code that renames what is there.

        Args:
            what: What needs the rename, for the message, as ``a transfer of a folder``.

        Raises:
            UnsuitableStoreError: The file system has no rename.
        """
        if not isinstance(self.fs, RenamingFiles):
            raise UnsuitableStoreError(
                f"{self.uri}: {what} renames files, and {self.fs.scheme}:// has no rename; nothing"
                " was changed; name a place in a file system that has one: file://, pfs://,"
                " hdfs:// or webhdfs://"
            )
        return RenamingLocation(self.fs, self.path)


@dataclass(frozen=True, eq=False)
class RenamingLocation(Location):
    """A path of a file system that has a rename; equal to the location without.

    Attributes:
        fs: The file system.
        path: Absolute path in it.
    """

    fs: RenamingFiles

    def rename(self, target: Location) -> None:
        """Rename to a free name; see ``RenamingFiles.rename``."""
        self.fs.rename(self.path, self._same_fs(target))

    def replace(self, target: Location) -> None:
        """Rename a file, replacing one with the name; see ``RenamingFiles.replace``."""
        self.fs.replace(self.path, self._same_fs(target))

    def _same_fs(self, target: Location) -> str:
        if target.fs != self.fs:
            raise ConfigError(
                f"expected {target.uri} to be in the file system of {self.uri};"
                " copy the file instead"
            )
        return target.path


def _normal(path: str, shown: str) -> str:
    parts = [part for part in path.split("/") if part]
    if "\0" in path or {".", ".."} & set(parts):
        raise ConfigError(f"expected a path without '.', '..' and NUL, got {shown!r}")
    return "/" + "/".join(parts)


def _shown(text: str) -> str:
    """Return an address for a message: before an @ there may be a password, which may have a /."""
    return text.rpartition("@")[2]


def _file_system(scheme: str, authority: str, shown: str) -> FileSystem:
    if scheme == "file" and not authority:
        return LocalFileSystem()
    match = _AUTHORITY.fullmatch(authority)
    shown = f"{scheme}://{shown}"
    if scheme == "hdfs" and match and not match["user"]:
        return _hdfs(match["address"])
    if scheme == "hdfs" and match:
        raise ConfigError(
            f"expected no user in {shown}: this client takes it from HADOOP_USER_NAME, once per"
            " process; set that variable, or use webhdfs://user@host:port"
        )
    if scheme == "webhdfs" and match and match["port"]:
        return _webhdfs(match["address"], match["user"])
    if scheme == "s3" and _BUCKET.fullmatch(authority):
        return _s3(authority)
    raise ConfigError(
        "expected file:///…, pfs://…, hdfs://host:port/…, webhdfs://[user@]host:port/…,"
        f" s3://bucket/… or an absolute path, got {shown}"
    )


# The clients of networks are imported where an address names them.
def _hdfs(address: str) -> FileSystem:
    from trainfeed.files.stores.hdfs import HdfsFileSystem

    return HdfsFileSystem(address)


def _webhdfs(address: str, user: str | None) -> FileSystem:
    from trainfeed.files.stores.webhdfs import WebHdfsFileSystem

    return WebHdfsFileSystem(address, user)


def _s3(bucket: str) -> FileSystem:
    from trainfeed.files.stores.s3 import S3FileSystem

    return S3FileSystem(bucket)


# --- The clock of this machine against that of a store: who decides by age needs both to agree

# Clocks of one site differ by seconds; a look at a loaded store takes longer.
CLOCK_MARGIN: Final = timedelta(minutes=10)
_TRIES: Final = 5


def present() -> datetime:
    """Return the aware UTC time of this machine."""
    return datetime.now(UTC)


def require_store_clock(
    folder: Location, what: str, *, clock: Callable[[], datetime] | None = None
) -> None:
    """Refuse a clock of this machine that differs from the store's by more than ten minutes.

    Args:
        folder: A folder of the store in which a file is written for a moment.
        what: What is not done, for the message, as ``nothing was removed``.
        clock: Returns the aware present time of this machine.

    Raises:
        StorageError: The clocks differ, or the store refused or failed.
    """
    clock = clock or present
    before = clock()
    there = _time_there(folder, _TRIES)
    if before - CLOCK_MARGIN <= there <= clock() + CLOCK_MARGIN:
        return
    here = before.isoformat(timespec="seconds")
    raise StorageError(
        f"{folder.uri}: expected the clock of this machine to agree with that of the store to"
        f" {CLOCK_MARGIN}, got {here} here and {there.isoformat(timespec='seconds')} there; {what};"
        " set the clock that is wrong, and try again"
    )


def _time_there(folder: Location, tries: int) -> datetime:
    folder.make_dir()
    file = folder / unfinished_name("clock")
    try:
        file.create_exclusive(b"clock\n")
        return datetime.fromtimestamp(file.stat().modified_ms / 1000, UTC)
    except NotFoundError:
        # A sweep that takes files of any age has taken this one.
        if tries == 1:
            raise
    finally:
        file.delete()
    return _time_there(folder, tries - 1)
