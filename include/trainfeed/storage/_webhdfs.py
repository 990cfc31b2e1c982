"""``webhdfs://``: HDFS over HTTP, through the ``hdfs`` package.

This protocol is slower than ``hdfs://``. Use it if only HTTP gets through, or if the URI must name
the user; by default the user is that of the operating system. Requests go directly to the hosts,
without proxies and ``.netrc``. A NameNode redirects to DataNodes by host name, so this machine must
be able to resolve these names; errors show them.
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
    """One HDFS over HTTP; see ``FileSystem`` for the contract of the methods.

    Attributes:
        address: ``host:port`` of the NameNode's HTTP server.
        user: Name of the user; None for that of the operating system.
    """

    address: str
    user: str | None = None
    scheme: ClassVar[str] = "webhdfs"

    def uri(self, path: str) -> str:
        """Return ``webhdfs://``, user, address, and the unchanged path."""
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
        """Create a file; ``close`` makes the DataNodes sync, and checks the length."""
        # The DataNode refuses a taken name too, but for a large file only closes the connection.
        if self.exists(path):
            raise ConflictError(f"{self.uri(path)}: the name is taken")
        upload = Upload(self._client(), self.uri(path), path=path, mode=FILE_MODE)
        target = UploadTarget(
            self.uri(path), send=upload.send, finish=upload.finish, abandon=upload.abandon
        )
        return io.BufferedWriter(target, BUFFER_BYTES)

    def stat(self, path: str) -> FileInfo:
        """Return facts about a file or folder."""
        return _file_info(path, self._status(path))

    def checksum(self, path: str) -> str | None:
        """Return the MD5 of the blocks' CRCs, or the checksum that the cluster uses instead."""
        with map_errors(self.uri(path)):
            found = ask(self._client(), "GETFILECHECKSUM", path)["FileChecksum"]
            return f"{found['algorithm']}:{found['bytes']}"

    def is_open(self, path: str) -> bool | None:
        """Return whether the NameNode reports blocks under construction."""
        with map_errors(self.uri(path)):
            blocks = ask(self._client(), "GET_BLOCK_LOCATIONS", path)["LocatedBlocks"]
            return bool(blocks["isUnderConstruction"])

    def make_dir(self, path: str) -> None:
        """Make a folder and its missing parents."""
        with map_errors(self.uri(path)):
            self._client().makedirs(path, permission=f"{FOLDER_MODE:o}")

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or folder, without the trash."""
        refuse_root(path)
        with map_errors(self.uri(path)):
            self._client().delete(path, recursive=recursive)

    def _entries(self, path: str) -> Iterator[FileInfo]:
        with map_errors(self.uri(path)):
            found = self._client().list(path, status=True)
        return (_file_info(f"{path.rstrip('/')}/{name}", status) for name, status in found)

    def _move(self, source: str, target: str, *, overwrite: bool) -> None:
        # With any option, even NONE, the NameNode uses the rename that raises errors and never
        # moves the source *into* an existing folder. ``rename`` of the package uses the other one.
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
        oddity="a symbolic link" if status["type"] == "SYMLINK" else None,
    )
