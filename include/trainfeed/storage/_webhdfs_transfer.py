"""The transfer of bytes to and from DataNodes for ``webhdfs://``.

The package's own writer queues without bound if a DataNode is slow, and its ``upload`` deletes
folders when it fails. This module therefore sends files itself, block by block, over a connection
for each file.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from trainfeed.errors import FileReplacedError, StorageError, UnsuitableStoreError
from trainfeed.storage._hadoop import check_length, hadoop_error, outage
from trainfeed.storage._storage_streams import BUFFER_BYTES
from trainfeed.storage._webhdfs_client import READ_TIMEOUT_S, map_errors

__all__ = ["Download", "Upload"]

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
