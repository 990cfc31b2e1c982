"""A client for bodies of bytes: token, TLS, bounded patience, for many threads at once."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from trainfeed.core.config import CA_FILE, TOKEN_FILE, service_files
from trainfeed.core.printable_text import printable
from trainfeed.errors import (
    ConfigError,
    ServiceDeniedError,
    ServiceError,
    ServiceRefusedError,
    ServiceUnreachableError,
)
from trainfeed.serving.server.access import client_context, read_private
from trainfeed.serving.server.settings import is_loopback

# --- Patience of a client: which answers pass, and how long the next try waits

# Statuses of a server that may answer the same request a moment later.
PASSING: Final = frozenset({429, 502, 503, 504})
LONGEST_WAIT: Final = 5.0

_FIRST_WAIT: Final = 0.05


class Patience:
    """The tries of one request, within a bound of time.

    Args:
        seconds: Time for all tries together.
        stop: Set when the client is closed; no further try follows then.
    """

    def __init__(self, seconds: float, stop: threading.Event) -> None:
        self._until = time.monotonic() + seconds
        self._stop = stop
        self._wait = _FIRST_WAIT

    def waits(self, asked: float = 0.0) -> bool:
        """Wait for the next try, at least the seconds that the server asked for.

        Returns:
            Whether there is a next try.
        """
        # A random part of the wait: many clients of one server do not return at once.
        wait = max(asked, self._wait * random.uniform(0.5, 1.0))  # noqa: S311 (no secret)
        self._wait = min(2 * wait, LONGEST_WAIT)
        return time.monotonic() + wait <= self._until and not self._stop.wait(wait)


# --- The answers of a server as a client takes them: a body, or one clear error


def checked_answer(status: int, answer: bytes, request: str) -> bytes:
    """Return the body of an answer whose status is a success.

    Args:
        status: The status of the answer.
        answer: The body of the answer.
        request: Method and address of the request, for errors.

    Raises:
        ServiceDeniedError: The token is refused.
        ServiceRefusedError: The server refused the request.
        ServiceError: The server failed.
    """
    if 200 <= status < 300:
        return answer
    text = refusal_text(answer)
    if status in (401, 403):
        raise ServiceDeniedError(f"{request}: {text}; {TOKEN_FILE} names the file of the token")
    if 400 <= status < 500 and _kind(answer):
        error = ServiceRefusedError(f"{request}: {text}")
        error.kind = _kind(answer)
        raise error
    raise ServiceError(f"{request}: expected an answer, got status {status}: {text}")


def refusal_text(answer: bytes) -> str:
    """Return the sentence of a refusal, or a note on what came in its place."""
    found = _refusal(answer)
    if "error" not in found:
        return f"{len(answer)} bytes that no server of trainfeed writes"
    text = "{error}: expected {expected}, got {got}; {remedy}"
    names = ("error", "expected", "got", "remedy")
    said = text.format(**{name: found.get(name, "?") for name in names})
    number = f" (request {found['request']})" if "request" in found else ""
    return printable(said + number)


def refusal_parts(answer: bytes) -> tuple[str, str]:
    """Return kind and description of a refusal; empty texts for other bytes."""
    found = _refusal(answer)
    return str(found.get("error", "")), printable(str(found.get("got", "")))


def _refusal(answer: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _kind(answer: bytes) -> str:
    return str(_refusal(answer).get("error", ""))


# --- What a client shows to a server, and where it may show it

_MAX_TOKEN_BYTES: Final = 4096


@dataclass(frozen=True)
class Access:
    """The files by which a client shows itself, and trusts a server.

    Attributes:
        token_file: File with the token; None for ``TRAINFEED_TOKEN_FILE``.
        ca_file: Authorities of the server; None for ``TRAINFEED_CA_FILE``, or those of the system.
        certificate: Certificate of the client, for servers that take one in place of a token.
        key: Key of the certificate.
    """

    token_file: Path | None = None
    ca_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def token(self) -> str | None:
        """Return the token; None if no file is named.

        Raises:
            ConfigError: The file cannot be read, is open to other accounts, or has no token.
        """
        path = self.token_file or service_files()[0]
        if path is None:
            return None
        data = read_private(path, "a token", max_bytes=_MAX_TOKEN_BYTES)
        words = data.decode("latin-1").split()
        if len(words) != 1 or not words[0].isascii():
            raise ConfigError(
                f"expected one token in {path}, got {len(words)} words; make the file with: umask"
                " 077; trainfeed token new NAME --scopes SCOPES > FILE"
            )
        return words[0]

    def context(self, url: str) -> ssl.SSLContext:
        """Return the TLS settings for an address.

        Raises:
            ConfigError: A file is not usable.
        """
        # Without TLS no authority is needed: reading those of the system takes 50 ms.
        if not url.startswith("https"):
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return client_context(self.ca_file or service_files()[1], self.certificate, self.key)


class HeldToken:
    """The token of a client, read again when a server refuses it.

    Args:
        access: The file of the token.

    Raises:
        ConfigError: The file is not usable.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._token = access.token()

    def header(self) -> dict[str, str]:
        """Return the header of a request; empty without a token."""
        return {} if self._token is None else {"authorization": f"Bearer {self._token}"}

    def is_renewed(self, refused: dict[str, str]) -> bool:
        """Read the file again; return whether its token is not that of a refused header."""
        self._token = self._access.token()
        return self.header() != refused


def checked_address(url: str) -> str:
    """Return the address of a server without a slash at its end.

    Raises:
        ConfigError: The address has another form, or would send a token unencrypted.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ConfigError(
            "expected the address of a server as https://HOST[:PORT], got another one"
        )
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ConfigError(
            f"expected https:// for {parts.hostname}, which is another machine, got http://;"
            " nothing was sent"
        )
    return url.rstrip("/")


# --- A client for bodies of bytes: into memory of the caller, by many threads at once

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
