"""A client for bodies of bytes: into memory of the caller, by many threads at once.

The standard library reads a body straight into the memory that a caller lends, which is what the
speed of large files needs. Requests may be sent twice; ``Reply.may_repeat`` says that one was.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from trainfeed.config import CA_FILE
from trainfeed.errors import ServiceError, ServiceUnreachableError
from trainfeed.printable_text import printable
from trainfeed.server.client._client_answers import checked_answer, refusal_parts, refusal_text
from trainfeed.server.client._shown_access import Access, HeldToken, checked_address
from trainfeed.server.client._tries import LONGEST_WAIT, PASSING, Patience

__all__ = ["ByteClient", "Reply"]

# Below the time after which servers close a connection that is not used.
_FRESH_SECONDS: Final = 10.0
_MAX_ANSWER_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class Reply:
    """An answer of a server.

    Attributes:
        request: Method and address, for messages.
        status: Status of the answer.
        headers: Headers, names in lower case.
        body: The body; empty if it went into memory of the caller.
        num_bytes: Size of the body.
        may_repeat: Whether an earlier try got no answer, so it may have taken effect.
    """

    request: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    num_bytes: int
    may_repeat: bool = False

    @property
    def refusal(self) -> tuple[str, str]:
        """Kind and text of a refusal; empty texts for any other answer."""
        return ("", "") if 200 <= self.status < 300 else refusal_parts(self.body)

    def require_success(self) -> None:
        """Raise the error of an answer that is no success; see ``ServiceClient.post``."""
        checked_answer(self.status, self.body, self.request)


class ByteClient:
    """Connections to one server, one for each thread that asks.

    Args:
        url: ``https://HOST[:PORT]``, or ``http://`` for this machine.
        access: Token and certificates; None for the files that the environment names.
        patience_seconds: Time that one request may take, with all of its tries.
        answer_seconds: Time that one try waits for the next bytes of the server.

    Raises:
        ConfigError: The address would send the token unencrypted to another machine, or a file is
            not usable.
    """

    def __init__(
        self,
        url: str,
        access: Access | None = None,
        *,
        patience_seconds: float = 60.0,
        answer_seconds: float = 35.0,
    ) -> None:
        self.url = checked_address(url)
        access = access or Access()
        self._token = HeldToken(access)
        self._context = access.context(self.url)
        self._patience_seconds = patience_seconds
        self._answer_seconds = min(answer_seconds, patience_seconds)
        self._stop = threading.Event()
        self._own = threading.local()
        self._all: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes | memoryview = b"",
        headers: Mapping[str, str] | None = None,
        into: memoryview | None = None,
    ) -> Reply:
        """Send a request until it is answered; return the answer, which may be a refusal.

        Args:
            method: Method of the request.
            path: Path and parameters, encoded.
            body: Body of the request.
            headers: Further headers.
            into: Memory for the body of a success; a longer body is an error.

        Raises:
            ServiceUnreachableError: No answer came within ``patience_seconds``.
            ServiceError: The body does not fit.
            ConfigError: The token file cannot be used any more.
        """
        patience, lost = Patience(self._patience_seconds, self._stop), False
        while True:
            token = self._token.header()
            reply, reason = self._try(method, path, body, {**(headers or {}), **token}, into)
            if reply is not None and reply.status == 401 and self._token.is_renewed(token):
                continue
            if reply is not None and reply.status not in PASSING:
                return replace(reply, may_repeat=lost)
            lost = lost or reply is None
            if not patience.waits(0.0 if reply is None else _asked_wait(reply)):
                raise self._unreachable(f"{method} {self.url}{path}", reply, reason)

    def close(self) -> None:
        """Close all connections; requests of other threads end with an error."""
        self._stop.set()
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()

    def _try(
        self,
        method: str,
        path: str,
        body: bytes | memoryview,
        headers: Mapping[str, str],
        into: memoryview | None,
    ) -> tuple[Reply | None, str]:
        """Return the answer, or None and the reason."""
        connection = self._connection()
        try:
            connection.request(method, path, body, {**headers, "accept-encoding": "identity"})
            with connection.getresponse() as answer:
                reply = self._read(answer, f"{method} {self.url}{path}", into)
        except ssl.SSLCertVerificationError as error:
            # No later try can pass.
            connection.close()
            self._stop.set()
            return None, f"{type(error).__name__}: {error.verify_message}"
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return None, f"{type(error).__name__}: {error}"
        except BaseException:
            connection.close()
            raise
        self._own.used = time.monotonic()
        return reply, ""

    def _connection(self) -> http.client.HTTPConnection:
        """Return the connection of this thread, opened again if the server may have closed it."""
        found: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if found is None:
            found = self._own.connection = self._made()
            with self._lock:
                self._all.append(found)
        elif time.monotonic() - getattr(self._own, "used", 0.0) > _FRESH_SECONDS:
            found.close()
        return found

    def _made(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host, port, seconds = parts.hostname or "", parts.port, self._answer_seconds
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=seconds)
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._context)

    def _read(
        self, answer: http.client.HTTPResponse, request: str, into: memoryview | None
    ) -> Reply:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        announced = int(headers.get("content-length", "0"))
        if into is None or not 200 <= answer.status < 300:
            if announced > _MAX_ANSWER_BYTES:
                raise _too_long(request, _MAX_ANSWER_BYTES)
            body = answer.read(_MAX_ANSWER_BYTES)
            return Reply(request, answer.status, headers, body, len(body))
        if announced > len(into):
            raise _too_long(request, len(into))
        num_bytes = _filled(answer, into[:announced])
        answer.read()
        return Reply(request, answer.status, headers, b"", num_bytes)

    def _unreachable(
        self, request: str, reply: Reply | None, reason: str
    ) -> ServiceUnreachableError:
        if reply is not None:
            reason = f"status {reply.status}: {refusal_text(reply.body)}"
        return ServiceUnreachableError(
            f"expected an answer to {printable(request)} within {self._patience_seconds:g} s, got"
            f" {printable(reason)}; look whether the server runs, and whether {CA_FILE} or the"
            " settings of the data centre name the authority of its certificate"
        )


def _filled(answer: http.client.HTTPResponse, into: memoryview) -> int:
    done = 0
    while done < len(into):
        count = answer.readinto(into[done:])
        if not count:
            raise http.client.IncompleteRead(b"", len(into) - done)
        done += count
    return done


def _asked_wait(reply: Reply) -> float:
    wished = reply.headers.get("retry-after", "0")
    return min(float(wished), LONGEST_WAIT) if wished.isdigit() else 0.0


def _too_long(request: str, limit: int) -> ServiceError:
    return ServiceError(
        f"{printable(request)}: expected an answer of at most {limit} bytes, got more; the rest was"
        " not read"
    )
