"""``hdfs://``: the NameNode's own protocol, through hdfs-native.

The user is the one of ``HADOOP_USER_NAME``, or else of the operating system; the client reads it
when it connects, once per process and address, and ignores a user in the URI. Other settings come
from the files in ``HADOOP_CONF_DIR``, if that is set.

What the client does not do is done here:

* It has no timeout for a NameNode that accepts a connection and then says nothing, and cannot be
  interrupted. Every call therefore runs in a thread of its own and has a deadline.
* It panics when asked to read past the end. All reads are bounded.
* Its threads do not survive a fork, and dropping the client in the child waits for them for ever.
  The connection is dropped before a fork, and both sides connect again when they need to.
"""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from queue import Empty, SimpleQueue
from types import ModuleType
from typing import Any, BinaryIO, ClassVar, Final, TypeVar

from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    StorageError,
    UnsuitableStoreError,
)
from trainfeed.paths import storage_error
from trainfeed.storage._base import FILE_MODE, FOLDER_MODE, FileInfo, refuse_root
from trainfeed.storage._hadoop import HadoopFiles, check_length, hadoop_error, outage
from trainfeed.storage._storage_streams import BUFFER_BYTES, RangeSource, UploadTarget

__all__ = ["HdfsFileSystem"]

T = TypeVar("T")

# With its own settings the client tries a NameNode that is down for 179 s before it says so.
_SETTINGS: Final = {
    "dfs.client.failover.max.attempts": "2",
    "dfs.client.failover.sleep.base.millis": "10",
    "dfs.client.failover.sleep.max.millis": "100",
}
# The client itself gives up on a silent DataNode after 60 s, and then tries another.
_DEADLINE_S: Final = 150.0

# Some of the NameNode's exceptions come as Python's own, without a name.
_CLASS_EXCEPTIONS: Final[dict[type[Exception], str]] = {
    FileNotFoundError: "FileNotFoundException",
    FileExistsError: "FileAlreadyExistsException",
    IsADirectoryError: "FileAlreadyExistsException",
    NotImplementedError: "UnsupportedOperationException",
}
_RPC_ERROR: Final = re.compile(r'(?:Fatal)?RPCError\("([^"]*)", "(.*)', re.DOTALL)
# How the client's own complaints begin. Others mean that it or a server failed: StorageError.
_TEXT_KINDS: Final[dict[str, type[StorageError]]] = {
    "GSSAPIError": AccessDeniedError,
    "InvalidArgument": UnsuitableStoreError,
    "InvalidPath": UnsuitableStoreError,
    "NoSASLMechanism": AccessDeniedError,
    "SASLError": AccessDeniedError,
    "UnsupportedErasureCodingPolicy": UnsuitableStoreError,
    "UrlParseError": UnsuitableStoreError,
}


@dataclass(frozen=True)
class HdfsFileSystem(HadoopFiles):
    """One HDFS; see ``FileSystem`` for what the methods promise.

    Attributes:
        address: ``host:port`` of the NameNode, or a name service of the Hadoop configuration.
    """

    address: str
    scheme: ClassVar[str] = "hdfs"

    def uri(self, path: str) -> str:
        """``hdfs://``, the address, and the path as it is."""
        return f"hdfs://{self.address}{path}"

    def open_read(self, path: str) -> BinaryIO:
        """Open a file; its blocks are looked up now, so a file put in its place is not seen."""
        uri = self.uri(path)
        with _map_errors(uri):
            reader = _call(_connect(self.address).read, path)

        def read_at(offset_bytes: int, num_bytes: int) -> bytes:
            with _map_errors(f"{uri} at byte {offset_bytes}"):
                data: bytes = _call(reader.read_range, offset_bytes, num_bytes)
            return data

        source = RangeSource(uri, len(reader), read_at=read_at, release=reader.close)
        return io.BufferedReader(source, BUFFER_BYTES)

    def open_write(self, path: str) -> BinaryIO:
        """Create a file; ``close`` makes the DataNodes sync and checks the length."""
        options = _client_package().WriteOptions(
            permission=FILE_MODE, overwrite=False, create_parent=True
        )
        with _map_errors(self.uri(path)):
            writer = _call(_connect(self.address).create, path, options)
        upload = _Upload(self, path, writer)
        target = UploadTarget(
            self.uri(path), send=upload.send, finish=upload.finish, abandon=upload.abandon
        )
        return io.BufferedWriter(target, BUFFER_BYTES)

    def stat(self, path: str) -> FileInfo:
        """Look at a file or folder."""
        with _map_errors(self.uri(path)):
            return _file_info(path, _call(_connect(self.address).get_file_info, path))

    def checksum(self, path: str) -> str | None:
        """None: the client does not ask for it."""
        self.stat(path)
        return None

    def is_open(self, path: str) -> bool | None:
        """Whether the last block counts as a whole one, as it does until it is complete.

        None for a file that ends with a whole block or has none, where that tells nothing, and for
        one that is not kept as replicas.
        """
        with _map_errors(self.uri(path)):
            client = _connect(self.address)
            status = _call(client.get_file_info, path)
            consumed = _call(client.get_content_summary, path).space_consumed
        if not status.replication or not status.blocksize:
            return None
        if consumed != status.length * status.replication:
            return True
        return False if status.length % status.blocksize else None

    def make_dir(self, path: str) -> None:
        """Make a folder and its missing parents."""
        with _map_errors(self.uri(path)):
            _call(_connect(self.address).mkdirs, path, FOLDER_MODE, True)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or folder, past the trash."""
        refuse_root(path)
        with _map_errors(self.uri(path)):
            _call(_connect(self.address).delete, path, recursive)

    def _entries(self, path: str) -> Iterator[FileInfo]:
        with _map_errors(self.uri(path)):
            client = _connect(self.address)
            found = _call(lambda: list(client.list_status(path)))
        return (_file_info(status.path, status) for status in found)

    def _move(self, source: str, target: str, *, overwrite: bool) -> None:
        with _map_errors(f"{self.uri(source)} -> {target}"):
            _call(_connect(self.address).rename, source, target, overwrite)


class _Upload:
    """What a file that is being written needs of the client."""

    def __init__(self, fs: HdfsFileSystem, path: str, writer: Any) -> None:
        self._fs = fs
        self._path = path
        self._writer = writer

    def send(self, data: bytes) -> None:
        with _map_errors(self._fs.uri(self._path)):
            _call(self._writer.write, data)

    def finish(self, num_bytes: int) -> None:
        uri = self._fs.uri(self._path)
        with _map_errors(uri):
            # Closing alone leaves the bytes in the DataNodes' caches.
            _call(self._writer.hsync)
            _call(self._writer.close)
        check_length(uri, self._fs.stat(self._path).size_bytes, num_bytes)

    def abandon(self) -> None:
        """The NameNode closes the file when the lease of this client ends."""


def _file_info(path: str, status: Any) -> FileInfo:
    return FileInfo(
        name=path.rpartition("/")[2],
        path=path,
        size_bytes=0 if status.isdir else status.length,
        modified_ms=status.modification_time,
        is_dir=status.isdir,
    )


@cache
def _connect(address: str) -> Any:
    return _client_package().Client(f"hdfs://{address}", config=_SETTINGS)


def _client_package() -> ModuleType:
    try:
        import hdfs_native
    except ImportError as error:
        raise ConfigError(
            f"expected hdfs-native for hdfs:// locations, got: {error}; install trainfeed[hdfs]"
        ) from error
    return hdfs_native


os.register_at_fork(before=_connect.cache_clear)


def _call(function: Callable[..., T], *arguments: Any) -> T:
    """What the client's function returns or raises, within the deadline."""
    answers: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            answers.put((function(*arguments), None))
        except BaseException as error:  # noqa: BLE001 - a panic is none of Exception
            answers.put((None, error))

    # A daemon: when the answer never comes, the thread must not keep the process alive.
    threading.Thread(target=run, name="hdfs-call", daemon=True).start()
    try:
        value, error = answers.get(timeout=_DEADLINE_S)
    except Empty:
        _connect.cache_clear()  # the next try gets a connection of its own
        raise TimeoutError(f"no answer within {_DEADLINE_S:.0f} s") from None
    if error is not None:
        raise error if isinstance(error, Exception) else RuntimeError(str(error))
    return value  # type: ignore[return-value]  # set whenever there is no error


@contextmanager
def _map_errors(place: str) -> Iterator[None]:
    """Raise what the client raised as the ``StorageError`` that it means for ``place``."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise _mapped(error, place) from error


def _mapped(error: OSError | RuntimeError, place: str) -> StorageError:
    text = str(error)
    for kind, exception in _CLASS_EXCEPTIONS.items():
        if isinstance(error, kind):
            return hadoop_error(place, exception, text)
    if found := _RPC_ERROR.match(text):
        # Rust's debug form of a string: quotes and the ends of lines are escaped.
        message = found[2].removesuffix('")').replace("\\n\\tat ", "\n\tat ")
        return hadoop_error(place, found[1], message)
    kind = _TEXT_KINDS.get(text.partition("(")[0], StorageError)
    return outage(place, text) if kind is StorageError else storage_error(kind, place, text)
