"""``webhdfs://``: HDFS over HTTP, through the ``hdfs`` package.

Slower than ``hdfs://``, and the one to use when only HTTP gets through or when the URI must name
the user. Without a user it is the one of the operating system. Requests go straight to the hosts:
neither proxies nor ``.netrc`` are looked at. A NameNode sends us on to a DataNode by host name, so
those names must be known here; errors show them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.storage._base import FILE_MODE, FOLDER_MODE, FileInfo, refuse_root
from trainfeed.storage._hadoop import HadoopFiles
from trainfeed.storage._storage_streams import BUFFER_BYTES, RangeSource, UploadTarget
from trainfeed.storage._webhdfs_client import ask, connect, map_errors
from trainfeed.storage._webhdfs_transfer import Download, Upload

__all__ = ["WebHdfsFileSystem"]


@dataclass(frozen=True)
class WebHdfsFileSystem(HadoopFiles):
    """One HDFS by HTTP; see ``FileSystem`` for what the methods promise.

    Attributes:
        address: ``host:port`` of the NameNode's HTTP server.
        user: Who asks; None for the user of the operating system.
    """

    address: str
    user: str | None = None
    scheme: ClassVar[str] = "webhdfs"

    def uri(self, path: str) -> str:
        """``webhdfs://``, user and address, and the path as it is."""
        user = f"{self.user}@" if self.user else ""
        return f"webhdfs://{user}{self.address}{path}"

    def open_read(self, path: str) -> BinaryIO:
        """Open a file; the first read connects to a DataNode."""
        status = self._status(path)
        if status["type"] == "DIRECTORY":
            raise NotFoundError(f"{self.uri(path)}: expected a file, got a folder")
        download = Download(self._client(), self.uri(path), path=path, file_id=status["fileId"])
        source = RangeSource(
            self.uri(path), status["length"], read_at=download.read_at, release=download.release
        )
        return io.BufferedReader(source, BUFFER_BYTES)

    def open_write(self, path: str) -> BinaryIO:
        """Create a file; the DataNodes sync when it is closed, and its length is checked."""
        # The DataNode refuses a name that is taken, but hangs up on a large file without saying so.
        if self.exists(path):
            raise ConflictError(f"{self.uri(path)}: the name is taken")
        upload = Upload(self._client(), self.uri(path), path=path, mode=FILE_MODE)
        target = UploadTarget(
            self.uri(path), send=upload.send, finish=upload.finish, abandon=upload.abandon
        )
        return io.BufferedWriter(target, BUFFER_BYTES)

    def stat(self, path: str) -> FileInfo:
        """Look at a file or folder."""
        return _file_info(path, self._status(path))

    def checksum(self, path: str) -> str | None:
        """The MD5 of the blocks' CRCs, or what the cluster has in its place."""
        with map_errors(self.uri(path)):
            found = ask(self._client(), "GETFILECHECKSUM", path)["FileChecksum"]
            return f"{found['algorithm']}:{found['bytes']}"

    def is_open(self, path: str) -> bool | None:
        """What the NameNode says of its blocks."""
        with map_errors(self.uri(path)):
            blocks = ask(self._client(), "GET_BLOCK_LOCATIONS", path)["LocatedBlocks"]
            return bool(blocks["isUnderConstruction"])

    def make_dir(self, path: str) -> None:
        """Make a folder and its missing parents."""
        with map_errors(self.uri(path)):
            self._client().makedirs(path, permission=f"{FOLDER_MODE:o}")

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or folder, past the trash."""
        refuse_root(path)
        with map_errors(self.uri(path)):
            self._client().delete(path, recursive=recursive)

    def _entries(self, path: str) -> Iterator[FileInfo]:
        with map_errors(self.uri(path)):
            found = self._client().list(path, status=True)
        return (_file_info(f"{path.rstrip('/')}/{name}", status) for name, status in found)

    def _move(self, source: str, target: str, *, overwrite: bool) -> None:
        # Any option, NONE too, asks for the rename that raises and that never moves the source
        # *into* an existing folder. The package's own rename asks for the other one.
        options = "OVERWRITE" if overwrite else "NONE"
        with map_errors(f"{self.uri(source)} -> {target}"):
            self._client()._rename(source, destination=target, renameoptions=options)  # noqa: SLF001

    def _client(self) -> Any:
        return connect(self.address, self.user)

    def _status(self, path: str) -> dict[str, Any]:
        with map_errors(self.uri(path)):
            status: dict[str, Any] = ask(self._client(), "GETFILESTATUS", path)["FileStatus"]
            return status


def _file_info(path: str, status: dict[str, Any]) -> FileInfo:
    is_dir = status["type"] == "DIRECTORY"
    return FileInfo(
        name=path.rpartition("/")[2],
        path=path,
        size_bytes=0 if is_dir else status["length"],
        modified_ms=status["modificationTime"],
        is_dir=is_dir,
        file_id=status["fileId"],
    )
