"""A file that is uploaded to a file server in chunks, and goes on after a restart of the server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import crc32c

from trainfeed.errors import CommitUnknownError, NotFoundError, ServiceError
from trainfeed.pfs.remote._asking import Asking
from trainfeed.pfs.trees import DigestKind, FileDigests, SourceState
from trainfeed.pfs.wire import DATA, FINISH, PRESENT, UPLOADS, Header
from trainfeed.server import Reply

__all__ = ["ServerTarget"]

_UNKNOWN: Final = "UploadUnknown"
# Each request of an upload begins the upload again at most so many times.
_BEGINS: Final = 8


class ServerTarget:
    """An upload; several threads may write at once.

    Args:
        asking: Requests to the server.
        path: Complete path that the file gets.
        state: State of the source.
        replace: Whether a file that has the name is replaced.
        digests_of: Returns the digests of the file that has the name.

    Raises:
        ConflictError: Another copy of this source to this name runs, or the name is taken.
        StorageError: The storage of the server refused or failed.
        ServiceError: The server refused, failed or did not answer.
    """

    def __init__(
        self,
        asking: Asking,
        path: str,
        state: SourceState,
        *,
        replace: bool,
        digests_of: Callable[[DigestKind], FileDigests],
    ) -> None:
        self._asking = asking
        self._path = path
        self._state = state
        self._replace = replace
        self._digests_of = digests_of
        self._lock = threading.Lock()
        self._upload = self._begun()

    def digests(self, kind: DigestKind = DigestKind.SHA256) -> tuple[bytes, ...]:
        """Return the digests of the chunks that an earlier try has left; see ``Target``."""
        reply = self._long("GET", PRESENT, kind)
        found = self._asking.value(reply, "chunks", list)
        return tuple(bytes.fromhex(digest) for digest in found)

    def write(self, offset: int, data: memoryview) -> None:
        """Send one chunk; see ``Target``."""
        # TLS detects changes on the way; this detects those in memory at both ends. The digest of
        # each chunk is compared once, with the file as it was read back, at the end.
        headers = {Header.CRC32C.value: f"{crc32c.crc32c(data):08x}"}
        self._ask("POST", DATA, {"offset": offset}, body=data, headers=headers)

    def commit(self, chunks: Sequence[bytes], kind: DigestKind = DigestKind.SHA256) -> None:
        """Have the server verify the file and name it; see ``Target``.

        Raises:
            CommitUnknownError: The server ended within the last step, and the name has other bytes.
        """
        body = b"".join(chunks)
        asked = {"kind": kind.value}
        reply = self._try("POST", FINISH, asked, body=body)
        # The server answers after some seconds whether the step has ended.
        while reply.status == 202:
            reply = self._try("POST", FINISH, asked, body=body)
        if reply.refusal[0] != _UNKNOWN:
            self._asking.require_success(reply)
        elif not self._has_name(tuple(chunks), kind):
            self._finish_again(body, kind)

    def close(self) -> None:
        """Leave the upload to the next try; the server closes it when it was idle for a time."""

    def _finish_again(self, body: bytes, kind: DigestKind) -> None:
        """Finish an upload that the server has forgotten, with the chunks that are there."""
        self._begin_again(self._upload)
        reply = self._long("POST", FINISH, kind, body=body)
        if reply.status != 200:
            raise CommitUnknownError(
                f"{self._path}: expected the server to finish the upload, got status"
                f" {reply.status}; repeat the command, which sends what is missing"
            )

    def _has_name(self, chunks: tuple[bytes, ...], kind: DigestKind) -> bool:
        """Return whether the file has its name already: the answer to an earlier try was lost."""
        try:
            found = self._digests_of(kind)
        except NotFoundError:
            return False
        return found.num_bytes == self._state.num_bytes and found.chunks == chunks

    def _long(self, method: str, route: str, kind: DigestKind, body: bytes = b"") -> Reply:
        """Ask for a step that may take long, until it is done."""
        asked = {"kind": kind.value}
        reply = self._ask(method, route, asked, body=body)
        while reply.status == 202:
            reply = self._ask(method, route, asked, body=body)
        return reply

    def _ask(self, method: str, route: str, parameters: dict[str, Any], **more: Any) -> Reply:
        for _ in range(_BEGINS):
            number = self._upload
            reply = self._try(method, route, parameters, **more)
            if reply.refusal[0] != _UNKNOWN:
                self._asking.require_success(reply)
                return reply
            self._begin_again(number)
        raise ServiceError(
            f"{self._path}: expected an upload that stays known to the server, began it {_BEGINS}"
            " times; look in the log of the server why it ends again and again"
        )

    def _try(self, method: str, route: str, parameters: dict[str, Any], **more: Any) -> Reply:
        return self._asking.try_to(method, route, {"upload": self._upload, **parameters}, **more)

    def _begin_again(self, number: str) -> None:
        with self._lock:
            # Of the threads whose upload is unknown, one begins it again.
            if self._upload == number:
                self._upload = self._begun()

    def _begun(self) -> str:
        state = self._state
        asked = {
            "path": self._path,
            "num_bytes": state.num_bytes,
            "modified_ns": state.modified_ns,
            "identity": state.identity,
            "replace": self._replace,
        }
        reply = self._asking.post(UPLOADS, asked)
        self._asking.require_success(reply)
        number: str = self._asking.value(reply, "upload", str)
        return number
