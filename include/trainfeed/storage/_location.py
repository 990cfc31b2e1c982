"""A place in a file system: what the stages pass around instead of paths and clients."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Final

from trainfeed.errors import ConfigError, FormatError
from trainfeed.storage._base import FileInfo, FileInfos, FileSystem
from trainfeed.storage._hdfs import HdfsFileSystem
from trainfeed.storage._local_files import LocalFileSystem
from trainfeed.storage._webhdfs import WebHdfsFileSystem

__all__ = ["Location"]

_AUTHORITY: Final = re.compile(
    r"(?:(?P<user>[A-Za-z0-9._-]+)@)?"
    r"(?P<address>(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(?P<port>:[0-9]{1,5})?)"
)
_MAX_READ_BYTES: Final = 64 << 20
_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True)
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
        """The place that a URI or an absolute local path names; touches no file system.

        ``/data/x`` and ``file:///data/x``; ``hdfs://host:port/x``, or ``hdfs://service/x`` of the
        Hadoop configuration; ``webhdfs://[user@]host:port/x``. An hdfs URI names no user: that
        client knows only ``HADOOP_USER_NAME``. The path is taken as it is written.

        Raises:
            ConfigError: It is none of these, or its path has a ``.`` or ``..`` component.
        """
        if uri.startswith("/"):
            return cls(LocalFileSystem(), _normal(uri, uri))
        scheme, separator, rest = uri.partition("://")
        authority, slash, path = rest.partition("/")
        if not separator:
            raise ConfigError(f"expected an absolute path or a URI, got {uri!r}")
        return cls(_file_system(scheme, authority), _normal(slash + path, f"{scheme}://…/{path}"))

    @property
    def uri(self) -> str:
        """The URI that ``parse`` turns into this location."""
        return self.fs.uri(self.path)

    @property
    def name(self) -> str:
        """Last component of the path; empty for the root."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The folder that holds this; the root holds itself."""
        return Location(self.fs, self.path.rpartition("/")[0] or "/")

    def __truediv__(self, name: str) -> Location:
        if not name or any(part in {"", ".", ".."} for part in name.split("/")) or "\0" in name:
            raise ConfigError(f"expected a relative path below {self.uri}, got {name!r}")
        return Location(self.fs, f"{self.path.rstrip('/')}/{name}")

    def open_read(self) -> BinaryIO:
        """Open the file for reading; see ``FileSystem.open_read``."""
        return self.fs.open_read(self.path)

    def open_write(self) -> BinaryIO:
        """Create the file and open it for writing; see ``FileSystem.open_write``."""
        return self.fs.open_write(self.path)

    def read_bytes(self, *, max_bytes: int = _MAX_READ_BYTES) -> bytes:
        """Read a whole file that should be small.

        Raises:
            NotFoundError: There is no such file.
            FormatError: It holds more than ``max_bytes``.
        """
        pieces, left = [], max_bytes + 1
        with self.open_read() as file:
            # Memory is taken for what is there, and not for what might be.
            while left and (piece := file.read(min(left, _PIECE_BYTES))):
                pieces.append(piece)
                left -= len(piece)
        data = b"".join(pieces)
        if len(data) > max_bytes:
            raise FormatError(f"expected at most {max_bytes} bytes, got more", path=self.uri)
        return data

    def write_atomic(self, write: Callable[[BinaryIO], None]) -> None:
        """Write a file that appears when it is whole; see ``FileSystem.write_atomic``."""
        self.fs.write_atomic(self.path, write)

    def create_exclusive(self, data: bytes) -> bool:
        """Make the file unless the name is taken; see ``FileSystem.create_exclusive``."""
        return self.fs.create_exclusive(self.path, data)

    def stat(self) -> FileInfo:
        """Look at the file or folder; see ``FileSystem.stat``."""
        return self.fs.stat(self.path)

    def exists(self) -> bool:
        """Whether there is a file or folder; see ``FileSystem.exists``."""
        return self.fs.exists(self.path)

    def list(self) -> FileInfos:
        """What the folder holds, sorted by name; see ``FileSystem.list``."""
        return self.fs.list(self.path)

    def checksum(self) -> str | None:
        """What is known of the file's content; see ``FileSystem.checksum``."""
        return self.fs.checksum(self.path)

    def is_open(self) -> bool | None:
        """Whether the file is still written; see ``FileSystem.is_open``."""
        return self.fs.is_open(self.path)

    def make_dir(self) -> None:
        """Make the folder and its parents; see ``FileSystem.make_dir``."""
        self.fs.make_dir(self.path)

    def rename(self, target: Location) -> None:
        """Move to a name that nobody has; see ``FileSystem.rename``."""
        self.fs.rename(self.path, self._same_fs(target))

    def replace(self, target: Location) -> None:
        """Move a file onto a name that a file may have; see ``FileSystem.replace``."""
        self.fs.replace(self.path, self._same_fs(target))

    def delete(self, *, recursive: bool = False) -> None:
        """Delete the file or folder, if there is one; see ``FileSystem.delete``."""
        self.fs.delete(self.path, recursive=recursive)

    def free_bytes(self) -> int | None:
        """How much can still be written here; see ``FileSystem.free_bytes``."""
        return self.fs.free_bytes(self.path)

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


def _file_system(scheme: str, authority: str) -> FileSystem:
    if scheme == "file" and not authority:
        return LocalFileSystem()
    match = _AUTHORITY.fullmatch(authority)
    # What stands before the @ may be a password, so no message shows it.
    shown = f"{scheme}://{authority.rpartition('@')[2]}"
    if scheme == "hdfs" and match and not match["user"]:
        return HdfsFileSystem(match["address"])
    if scheme == "hdfs" and match:
        raise ConfigError(
            f"expected no user in {shown}: this client takes it from HADOOP_USER_NAME, once per"
            " process; set that variable, or use webhdfs://user@host:port"
        )
    if scheme == "webhdfs" and match and match["port"]:
        return WebHdfsFileSystem(match["address"], match["user"])
    raise ConfigError(
        "expected file:///…, hdfs://host:port/…, webhdfs://[user@]host:port/… or an absolute path,"
        f" got {shown}"
    )
