"""``hdfs://``: the NameNode's own protocol, through hdfs-native."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, BinaryIO, ClassVar, Final, TypeVar

from trainfeed.core.patience import answer_within
from trainfeed.errors import AccessDeniedError, ConfigError, StorageError, UnsuitableStoreError
from trainfeed.files import storage_error
from trainfeed.files.stores.file_system import (
    FILE_MODE,
    FOLDER_MODE,
    FileInfo,
    FileInfos,
    refuse_root,
)
from trainfeed.files.stores.hadoop import (
    BUFFER_BYTES,
    HadoopFiles,
    RangeSource,
    UploadTarget,
    check_length,
    hadoop_error,
    outage,
)

T = TypeVar("T")

# By default the client retries for 179 s before it reports that a NameNode is down.
_SETTINGS: Final = {
    "dfs.client.failover.max.attempts": "2",
    "dfs.client.failover.sleep.base.millis": "10",
    "dfs.client.failover.sleep.max.millis": "100",
}
# The client itself gives up on a silent DataNode after 60 s, and then tries another.
_DEADLINE_S: Final = 150.0

# dfs.replication.max of a NameNode that nobody has configured otherwise.
_MOST_REPLICAS: Final = 512

# The client raises some exceptions of the NameNode as built-in ones of Python: class → Java class.
_CLASS_EXCEPTIONS: Final[dict[type[Exception], str]] = {
    FileNotFoundError: "FileNotFoundException",
    FileExistsError: "FileAlreadyExistsException",
    IsADirectoryError: "FileAlreadyExistsException",
    NotImplementedError: "UnsupportedOperationException",
}
_RPC_ERROR: Final = re.compile(r'(?:Fatal)?RPCError\("([^"]*)", "(.*)', re.DOTALL)
# First word of the client's own errors → error. Others become a plain StorageError: the client or a
# server failed.
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
    """One HDFS; see ``FileSystem`` for the contract of the methods.

    Attributes:
        address: ``host:port`` of the NameNode, or a name service of the Hadoop configuration.
    """

    address: str
    scheme: ClassVar[str] = "hdfs"

    def uri(self, path: str) -> str:
        """Return ``hdfs://``, the address, and the unchanged path."""
        return f"hdfs://{self.address}{path}"

    def open_read(self, path: str) -> BinaryIO:
        """Open a file; its blocks are looked up now, so a later replacement is not visible."""
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
        """Create a file; ``close`` makes the DataNodes sync, and checks the length."""
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
        """Return facts about a file or folder."""
        with _map_errors(self.uri(path)):
            return _file_info(path, _call(_connect(self.address).get_file_info, path))

    def checksum(self, path: str) -> str | None:  # noqa: ARG002
        """Return None, and ask nothing: the client cannot request checksums."""
        return None

    def is_open(self, path: str) -> bool | None:
        """Return whether the file is still open, by the space that the NameNode counts for it.

        Until a file is closed, its last block counts as a full one. None for a file that has no
        block or ends with a full block, which looks the same, for one without replicas, and for
        one of which a snapshot holds other blocks.
        """
        with _map_errors(self.uri(path)):
            client = _connect(self.address)
            status = _call(client.get_file_info, path)
            consumed = _call(client.get_content_summary, path).space_consumed
        return _is_open(status.length, status.replication, status.blocksize, consumed)

    def closed_files(self, path: str, entries: FileInfos) -> Set[str]:
        """Return the closed files of a folder, by the space that the NameNode counts for it.

        A folder within it may hold any number of files: then nothing is asked, and none is known.
        """
        if not entries or any(info.is_dir for info in entries):
            return frozenset()
        with _map_errors(self.uri(path)):
            found = _call(_connect(self.address).get_content_summary, path)
        return _closed(entries, found.file_count, found.space_consumed)

    def make_dir(self, path: str) -> None:
        """Make a folder and its missing parents."""
        with _map_errors(self.uri(path)):
            _call(_connect(self.address).mkdirs, path, FOLDER_MODE, True)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or folder, without the trash."""
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
    """The calls of the client for a file that is being written."""

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
            # ``close`` alone would leave the bytes in the DataNodes' caches.
            _call(self._writer.hsync)
            _call(self._writer.close)
        check_length(uri, self._fs.stat(self._path).size_bytes, num_bytes)

    def abandon(self) -> None:
        """Do nothing: the NameNode closes the file when the lease of this client ends."""


def _is_open(
    length: int, replicas: int | None, block_bytes: int | None, consumed: int
) -> bool | None:
    """Tell from the space that is counted for a file whether its last block is complete.

    A snapshot that holds the file keeps the largest number of replicas that the file ever had in
    one, and blocks that a truncation has cut off: more space than length and replicas say.
    """
    if not replicas or not block_bytes:
        return None
    if consumed == length * replicas:
        return False if length % block_bytes else None
    # A last block under construction counts in full.
    size_if_open = (length // block_bytes + 1) * block_bytes
    if consumed == size_if_open * replicas:
        return True
    looks_open = _is_multiple(consumed, size_if_open, replicas)
    looks_closed = _is_multiple(consumed, length, replicas)
    if looks_open == looks_closed:
        return None
    return looks_open or (False if length % block_bytes else None)


def _closed(entries: FileInfos, num_files: int, consumed: int) -> Set[str]:
    """Tell from the space that is counted for a folder which of its files are closed.

    No file counts with less than its length in all replicas, and more is counted for one that is
    open. So in a folder that counts with just that of all its files, each file counts with just
    its own: those are closed that ``_is_open`` would call so.
    """
    least = 0
    for info in entries:
        if not info.replicas or not info.block_bytes:
            return frozenset()
        least += info.size_bytes * info.replicas
    if consumed != least or num_files != len(entries):
        return frozenset()
    # What ends with a whole block may be open without that its space shows it.
    return {info.name for info in entries if info.size_bytes % (info.block_bytes or 1)}


def _is_multiple(consumed: int, size: int, replicas: int) -> bool:
    return bool(size) and consumed % size == 0 and replicas <= consumed // size <= _MOST_REPLICAS


def _file_info(path: str, status: Any) -> FileInfo:
    return FileInfo(
        name=path.rpartition("/")[2],
        path=path,
        size_bytes=0 if status.isdir else status.length,
        modified_ms=status.modification_time,
        is_dir=status.isdir,
        replicas=status.replication,
        block_bytes=status.blocksize,
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
    """Call a function of the client in a thread; return or raise its result by the deadline."""
    try:
        return answer_within(_DEADLINE_S, function, *arguments)
    except TimeoutError:
        _connect.cache_clear()  # the next call makes a new connection
        raise


@contextmanager
def _map_errors(place: str) -> Iterator[None]:
    """Raise errors of the client as those of ``StorageError``, with ``place``."""
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
        # The text has the form of Rust's debug output: quotes and line ends are escaped.
        message = found[2].removesuffix('")').replace("\\n\\tat ", "\n\tat ")
        return hadoop_error(place, found[1], message)
    kind = _TEXT_KINDS.get(text.partition("(")[0], StorageError)
    return outage(place, text) if kind is StorageError else storage_error(kind, place, text)
