"""``webhdfs://``: HDFS over HTTP, through the ``hdfs`` package."""

from __future__ import annotations

import http.client
import io
import json
import os
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, BinaryIO, ClassVar, Final
from urllib.parse import quote, urlencode, urlsplit

from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FileReplacedError,
    NotFoundError,
    StorageError,
    UnsuitableStoreError,
)
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

# --- The client behind ``webhdfs://``, and the translation of its errors

# Longest silence between two answers: a pipeline that replaces a dead DataNode takes a while.
READ_TIMEOUT_S: Final = 60.0
# Most nested errors that are followed: three packages wrap an error of a connection.
_MAX_NESTED: Final = 8
_MAX_REASON_CHARS: Final = 200
CONNECT_TIMEOUT_S: Final = 5.0


@cache
def connect(address: str, user: str | None) -> Any:
    """Return the client for ``host:port`` and a user, made once per process."""
    timeouts = (CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
    client = _package().InsecureClient(f"http://{address}", user=user, timeout=timeouts)
    client.resolve = str  # otherwise it expands "#LATEST" in a path
    client._session.trust_env = False  # noqa: SLF001
    client._session.max_redirects = 1  # noqa: SLF001
    return client


# Otherwise parent and child of a fork would send their requests over the same sockets.
os.register_at_fork(before=connect.cache_clear)


def ask(client: Any, operation: str, path: str) -> dict[str, Any]:
    """Return the answer to a request about one file or folder; folders have thousands.

    The request uses the package's pool of connections directly: the layers above the pool take
    twice the time of servers and network.

    Args:
        client: The client from ``connect``.
        operation: An operation of WebHDFS that reads, such as ``GETFILESTATUS``.
        path: The file or folder.
    """
    import urllib3

    query = urlencode({**client._session.params, "op": operation})  # noqa: SLF001
    url = f"{client.url}/webhdfs/v1{quote(path)}?{query}"
    pool = client._session.get_adapter(url).poolmanager  # noqa: SLF001
    try:
        answer = pool.request(
            "GET",
            url,
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
            # One redirect, to a DataNode.
            retries=urllib3.Retry(None, connect=0, read=0, redirect=1, status=0, other=0),
        )
    except urllib3.exceptions.HTTPError as error:
        raise OSError(str(error)) from error
    if answer.status != http.client.OK:
        raise _refusal(answer.status, answer.data)
    try:
        return dict(json.loads(answer.data))
    except ValueError as error:
        raise OSError(f"the answer is not in the form of WebHDFS: {error}") from error


def _package() -> ModuleType:
    try:
        import hdfs
    except ImportError as error:
        raise ConfigError(
            f"expected hdfs for webhdfs:// locations, got: {error}; install trainfeed[hdfs]"
        ) from error
    return hdfs  # type: ignore[no-any-return]


@contextmanager
def map_errors(place: str) -> Iterator[None]:
    """Raise errors of the package or a connection as those of ``StorageError``."""
    hdfs_error: type[Exception] = _package().HdfsError
    try:
        yield
    except hdfs_error as error:
        raise _mapped(error, place) from error
    except (OSError, http.client.HTTPException) as error:  # all of requests' are an OSError
        raise outage(place, _reason(error, place)) from error
    except (KeyError, TypeError) as error:
        raise outage(place, f"the answer is not in the form of WebHDFS: {error!r}") from error


def _reason(error: BaseException, place: str) -> str:
    """Return the system's reason for a failed connection, without the texts of packages above.

    The text names the host if it is not in ``place``: a NameNode redirects to DataNodes.
    """
    chain = _chain(error)
    said = [each.strerror for each in chain if isinstance(each, OSError) and each.strerror]
    hosts = [host for each in chain if (host := _host(each)) and host not in place]
    if any(isinstance(each, TimeoutError) for each in chain):
        said.insert(0, "timed out")
    if not said:
        return (str(error) or type(error).__name__).partition("\n")[0][:_MAX_REASON_CHARS]
    return ": ".join([*hosts[:1], said[0].lower()])


def _host(error: BaseException) -> str:
    """Return the host from an error of the client's pool of connections, or an empty text."""
    said = vars(error)
    return str(getattr(said.get("conn") or said.get("pool"), "host", ""))


def _chain(error: BaseException) -> list[BaseException]:
    """Return the error, and the errors nested in it."""
    found = [error]
    while len(found) < _MAX_NESTED:
        last = found[-1]
        nested = (getattr(last, "reason", None), *last.args, last.__cause__, last.__context__)
        inner = next((each for each in nested if isinstance(each, BaseException)), None)
        if inner is None:
            break
        found.append(inner)
    return found


def _refusal(status: int, body: bytes) -> Exception:
    """Return the error that the package raises for such an answer."""
    if status == http.client.UNAUTHORIZED:
        return _package().HdfsError("Authentication failure")  # type: ignore[no-any-return]
    try:
        problem = json.loads(body)["RemoteException"]
    except ValueError:
        problem = {"message": body, "exception": None}
    return _package().HdfsError(problem["message"], exception=problem["exception"])  # type: ignore[no-any-return]


def _mapped(error: Any, place: str) -> StorageError:
    message = error.message
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    exception: str | None = error.exception
    if exception is None and text.startswith("Authentication failure"):
        exception = "AuthenticationException"
    return hadoop_error(place, exception, text)


# --- The transfer of bytes to and from DataNodes for ``webhdfs://``

_MAX_ANSWER_BYTES: Final = 1 << 20


class Download:
    """A file that is read from one HTTP answer, and from a new one after every seek.

    Args:
        client: The client; used until ``release``.
        uri: URI of the file, for messages.
        path: The file.
        file_id: Number of the file at the NameNode; another file with the path is not read.
    """

    def __init__(self, client: Any, uri: str, *, path: str, file_id: int) -> None:
        self._client = client
        self._uri = uri
        self._path = path
        self._file_id = file_id
        self._response: Any = None
        self._blocks: Iterator[bytes] = iter(())
        self._rest = b""
        self._offset_bytes = -1

    def read_at(self, offset_bytes: int, num_bytes: int) -> bytes:
        """Return the bytes of a range; after a broken connection, request them once more.

        Two cases are normal: a DataNode closes the connection of a reader that pauses for minutes,
        and its first answer after a restart of the NameNode is an error.
        """
        try:
            return self._read_at(offset_bytes, num_bytes)
        except StorageError as error:
            self.release()
            if type(error) is not StorageError:
                raise
        return self._read_at(offset_bytes, num_bytes)

    def release(self) -> None:
        """Close the answer."""
        self._offset_bytes = -1
        self._rest = b""
        if self._response is not None:
            self._response.close()
            self._response = None

    def _read_at(self, offset_bytes: int, num_bytes: int) -> bytes:
        if offset_bytes != self._offset_bytes:
            self.release()
            self._open_at(offset_bytes)
        # ``_rest`` is the part of the last block behind the bytes that were asked for before.
        parts = []
        missing = num_bytes
        while missing:
            block = self._next_block(offset_bytes + num_bytes - missing)
            parts.append(block[:missing])
            self._rest = block[missing:]
            missing -= len(parts[-1])
        self._offset_bytes = offset_bytes + num_bytes
        return b"".join(parts)

    def _open_at(self, offset_bytes: int) -> None:
        with map_errors(f"{self._uri} at byte {offset_bytes}"):
            self._response = self._client._open(self._path, offset=offset_bytes)  # noqa: SLF001
            self._blocks = self._response.iter_content(BUFFER_BYTES)
            # Requested after the answer has begun: the rest of the answer is then of the same file.
            found = self._client.status(self._path)["fileId"]
        if found != self._file_id:
            raise FileReplacedError(
                f"{self._uri}: the file was replaced while it was read; read it again"
            )

    def _next_block(self, offset_bytes: int) -> bytes:
        if self._rest:
            return self._rest
        place = f"{self._uri} at byte {offset_bytes}"
        with map_errors(place):
            block = next(self._blocks, b"")
        if not block:
            raise outage(place, "the DataNode's answer ended too early")
        return block


class Upload:
    """A file that is written by one HTTP request, whose body is sent block by block.

    Args:
        client: The client; used until ``finish`` or ``abandon``.
        uri: URI of the file, for messages.
        path: The file, which must not exist.
        mode: Permissions of the file.

    Raises:
        StorageError: No NameNode or DataNode answers.
    """

    def __init__(self, client: Any, uri: str, *, path: str, mode: int) -> None:
        self._client = client
        self._path = path
        self._place = uri
        with map_errors(self._place):
            answer = client._create(  # noqa: SLF001
                path,
                overwrite="false",
                permission=f"{mode:o}",
                createflag="CREATE,SYNC_BLOCK",  # otherwise the bytes stay in the DataNodes' caches
            )
            url = urlsplit(answer.headers["location"])
        if url.scheme != "http" or not url.hostname:
            raise UnsuitableStoreError(
                f"{self._place}: expected a redirect to http://host:port, got {url.geturl()!r}"
            )
        self._place += f" via DataNode {url.netloc}"
        self._connection = http.client.HTTPConnection(
            url.hostname, url.port, timeout=READ_TIMEOUT_S
        )
        with map_errors(self._place):
            self._connection.putrequest("PUT", f"{url.path}?{url.query}")
            self._connection.putheader("Content-Type", "application/octet-stream")
            self._connection.putheader("Transfer-Encoding", "chunked")
            self._connection.endheaders()

    def send(self, data: bytes) -> None:
        """Send one block."""
        with map_errors(self._place):
            try:
                self._connection.send(b"%x\r\n" % len(data))
                self._connection.send(data)
                self._connection.send(b"\r\n")
            except OSError:
                # A DataNode that refuses sends its answer and closes the connection: the answer has
                # the reason.
                with suppress(OSError, http.client.HTTPException):
                    self._check_answer()
                raise

    def finish(self, num_bytes: int) -> None:
        """End the body, and wait until the file is closed."""
        try:
            with map_errors(self._place):
                self._connection.send(b"0\r\n\r\n")
                self._check_answer()
        finally:
            self._connection.close()
        with map_errors(self._place):
            size_bytes = self._client.status(self._path)["length"]
        check_length(self._place, size_bytes, num_bytes)

    def abandon(self) -> None:
        """Close the connection; the NameNode closes the file when the DataNode's lease ends."""
        self._connection.close()

    def _check_answer(self) -> None:
        answer = self._connection.getresponse()
        body = answer.read(_MAX_ANSWER_BYTES)
        if answer.status == http.client.CREATED:
            return
        try:
            remote = json.loads(body)["RemoteException"]
            exception, message = str(remote["exception"]), str(remote["message"])
        except (ValueError, KeyError, TypeError):
            exception, message = None, f"status {answer.status} {answer.reason}"
        raise hadoop_error(self._place, exception, message)


# --- ``webhdfs://``: HDFS over HTTP, through the ``hdfs`` package


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

    def closed_files(self, path: str, entries: FileInfos) -> Set[str]:  # noqa: ARG002
        """Return nothing: the answer about each file is exact, that about a folder is not."""
        return frozenset()

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
