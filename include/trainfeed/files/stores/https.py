"""Files behind ``https://``, to read: by ranged requests, without a listing and without a login."""

from __future__ import annotations

import http.client
import io
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO, ClassVar, Final
from urllib.parse import quote

from trainfeed.core.config import service_files
from trainfeed.errors import (
    AccessDeniedError,
    FileReplacedError,
    NotFoundError,
    StorageError,
    TruncatedError,
    UnsuitableStoreError,
)
from trainfeed.files import storage_error
from trainfeed.files.stores.hadoop import BUFFER_BYTES, RangeSource

_TIMEOUT_S: Final = 60.0
_GONE: Final = frozenset({http.client.NOT_FOUND, http.client.GONE})
_DENIED: Final = frozenset({http.client.UNAUTHORIZED, http.client.FORBIDDEN})
_LATER: Final = frozenset({http.client.REQUEST_TIMEOUT, http.client.TOO_MANY_REQUESTS})
_FIRST_SERVER_ERROR: Final = 500


@dataclass(frozen=True)
class HttpsFiles:
    """The files of one server, to read; see ``FileSystem`` for the contract of these methods.

    A redirect is not followed: a root is where its address says.

    Attributes:
        address: ``host`` or ``host:port``.
    """

    address: str
    scheme: ClassVar[str] = "https"

    def uri(self, path: str) -> str:
        """Return ``https://``, the address, and the unchanged path."""
        return f"https://{self.address}{path}"

    def open_read(self, path: str) -> BinaryIO:
        """Open a file; if it is replaced meanwhile, a read fails where the server has ETags.

        Raises:
            NotFoundError: The server has no such file.
            AccessDeniedError: The server wants a login.
            UnsuitableStoreError: It answers otherwise than servers of files do.
            StorageError: It is down, or failed.
        """
        ranges = self.connect()
        with ExitStack() as stack:
            stack.callback(ranges.close)
            size_bytes, tag = ranges.facts(path)

            def read_at(offset_bytes: int, num_bytes: int) -> bytes:
                data = bytearray(num_bytes)
                ranges.read_into(path, offset_bytes, memoryview(data), tag=tag)
                return bytes(data)

            source = RangeSource(self.uri(path), size_bytes, read_at=read_at, release=ranges.close)
            stack.pop_all()
        return io.BufferedReader(source, BUFFER_BYTES)

    def exists(self, path: str) -> bool:
        """Return whether the server has the file."""
        try:
            self.open_read(path).close()
        except NotFoundError:
            return False
        return True

    def connect(self) -> HttpsRanges:
        """Return what reads ranges of any of the files over one connection."""
        return HttpsRanges(self)


class HttpsRanges:
    """Ranges of files of one server, over one connection; for one thread at a time.

    Args:
        files: The server.
    """

    def __init__(self, files: HttpsFiles) -> None:
        self._files = files
        self._connection = http.client.HTTPSConnection(
            files.address, timeout=_TIMEOUT_S, context=_context(service_files()[1])
        )

    def facts(self, path: str) -> tuple[int, str]:
        """Return the length of a file, and its ETag, "" without a strong one; see ``open_read``."""
        uri = self._files.uri(path)
        answer = self._ask(path, "HEAD", {})
        self._require(answer, uri, http.client.OK)
        with _errors(uri):
            answer.read()
        length, tag = answer.getheader("Content-Length") or "", answer.getheader("ETag") or ""
        if not length.isdecimal():
            raise self._unsuitable(uri, "a length of the file", f"Content-Length {length!r}")
        # A weak tag may be that of other bytes.
        return int(length), "" if tag.startswith("W/") else tag

    def read_into(self, path: str, offset_bytes: int, out: memoryview, *, tag: str = "") -> None:
        """Fill all of ``out`` from a file.

        Args:
            path: The file.
            offset_bytes: Where the range begins.
            out: Receives it.
            tag: The ETag that the file must have; "" for any.

        Raises:
            FileReplacedError: It has another one.
            TruncatedError: The file ends before the range does.
            StorageError: As ``open_read``.
        """
        uri, last = self._files.uri(path), offset_bytes + len(out) - 1
        headers = {"Range": f"bytes={offset_bytes}-{last}", "Accept-Encoding": "identity"}
        if tag:
            headers["If-Match"] = tag
        answer = self._ask(path, "GET", headers)
        if answer.status == http.client.PRECONDITION_FAILED:
            self.close()
            raise FileReplacedError(
                f"{uri}: the file was replaced while it was read; read it again"
            )
        found = answer.getheader("Content-Range") or ""
        is_cut = answer.status == http.client.PARTIAL_CONTENT and not found.startswith(
            f"bytes {offset_bytes}-{last}/"
        )
        if is_cut or answer.status == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            self.close()
            raise TruncatedError(
                f"expected bytes {offset_bytes}-{last}, the server has {found or 'fewer'!r}",
                path=uri,
                offset_bytes=offset_bytes,
            )
        self._require(answer, uri, http.client.PARTIAL_CONTENT)
        done = 0
        with _errors(uri):
            while done < len(out):
                if not (count := answer.readinto(out[done:])):
                    self.close()
                    raise http.client.IncompleteRead(bytes(out[:0]), len(out) - done)
                done += count
            answer.read()

    def close(self) -> None:
        """Close the connection; a later request opens another one."""
        self._connection.close()

    def _ask(self, path: str, method: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        with _errors(self._files.uri(path)):
            try:
                self._connection.request(method, quote(path), headers=headers)
                return self._connection.getresponse()
            except (ssl.SSLCertVerificationError, TimeoutError):
                self.close()
                raise
            except (OSError, http.client.HTTPException):
                # A server closes a connection that was idle for a while.
                self.close()
                self._connection.request(method, quote(path), headers=headers)
                return self._connection.getresponse()

    def _require(self, answer: http.client.HTTPResponse, uri: str, wanted: int) -> None:
        if answer.status == wanted:
            return
        # The body is not read: a server that ignores ranges would send the whole file.
        self.close()
        what = f"status {answer.status} {answer.reason}"[:200]
        if answer.status in _GONE:
            raise NotFoundError(f"{uri}: {what}")
        if answer.status in _DENIED:
            raise storage_error(AccessDeniedError, uri, what)
        if answer.status >= _FIRST_SERVER_ERROR or answer.status in _LATER:
            raise storage_error(StorageError, uri, what)
        raise self._unsuitable(uri, f"status {int(wanted)}", what)

    def _unsuitable(self, uri: str, expected: str, got: str) -> UnsuitableStoreError:
        return UnsuitableStoreError(
            f"{uri}: expected {expected}, got {got}; the server must give ranges of files"
        )


@contextmanager
def _errors(uri: str) -> Iterator[None]:
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise AccessDeniedError(
            f"{uri}: the certificate of the server is not trusted: {error.verify_message}; set"
            " TRAINFEED_CA_FILE to that of its authority"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise storage_error(StorageError, uri, reason[:200].lower()) from error


@cache
def _context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context
