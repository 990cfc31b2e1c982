"""The client of every server: one connection for each thread, token, TLS, bounded patience."""

from __future__ import annotations

import http.client
import json
import math
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlencode, urlsplit

from trainfeed.core.config import CA_FILE, TOKEN_FILE, service_files
from trainfeed.core.patience import Patience
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

# --- The answers of a server: a body, or one clear error


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
    def is_success(self) -> bool:
        """Whether the server did what was asked."""
        return 200 <= self.status < 300

    @property
    def refusal(self) -> tuple[str, str]:
        """Kind and text of a refusal; empty texts for any other answer."""
        found = {} if self.is_success else self._refusal()
        return str(found.get("error", "")), printable(str(found.get("got", "")))

    @property
    def asked_wait_s(self) -> float:
        """Seconds after which the server wants to be asked again; 0 if it does not say."""
        wished = self.headers.get("retry-after", "")
        return float(wished) if wished.isdecimal() else 0.0

    def reason(self) -> str:
        """Return the sentence of a refusal, or a note on what came in its place."""
        found = self._refusal()
        if "error" not in found:
            return f"{len(self.body)} bytes that no server of trainfeed writes"
        names = ("error", "expected", "got", "remedy")
        text = "{error}: expected {expected}, got {got}; {remedy}"
        number = f" (request {found['request']})" if "request" in found else ""
        return printable(text.format(**{name: found.get(name, "?") for name in names}) + number)

    def require_success(self) -> Self:
        """Return the answer if it is a success.

        Raises:
            ServiceDeniedError: The token is refused.
            ServiceRefusedError: The server refused the request.
            ServiceError: The server failed.
        """
        if self.is_success:
            return self
        request = printable(self.request)
        if self.status in (401, 403):
            raise ServiceDeniedError(
                f"{request}: {self.reason()}; {TOKEN_FILE} names the file of the token"
            )
        if 400 <= self.status < 500 and (kind := self.refusal[0]):
            error = ServiceRefusedError(f"{request}: {self.reason()}")
            error.kind = kind
            raise error
        raise ServiceError(
            f"{request}: expected an answer, got status {self.status}: {self.reason()}"
        )

    def json(self) -> Any:
        """Return the value of a body of JSON.

        Raises:
            ServiceError: The body is none.
        """
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise ServiceError(
                f"{printable(self.request)}: expected JSON, got {self.num_bytes} other bytes; is"
                " another program listening there?"
            ) from error

    def _refusal(self) -> dict[str, Any]:
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


# --- Connections to one server: each request is sent once

# Below the time after which servers close a connection that is not used.
_FRESH_SECONDS: Final = 10.0
_MAX_ANSWER_BYTES: Final = 64 << 20
_PART_BYTES: Final = 1 << 20


class NoAnswerError(Exception):
    """A request got no answer; ``str(error)`` is the reason.

    Attributes:
        wait_s: Seconds after which the server wants to be asked again, 0 if it does not say; None
            if no later try can get an answer.
    """

    def __init__(self, reason: str, *, wait_s: float | None = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class Connections:
    """Connections to one server, one for each thread that asks.

    Redirects are answers, and proxies of the environment are not used: what a request shows goes to
    this server only. The base is ``http.client``, which reads a body into memory of the caller.

    Args:
        url: ``http[s]://HOST[:PORT][/PATH]``, without a slash at its end.
        context: TLS settings; None for an address without TLS.
        answer_seconds: Time that a request waits for the next bytes of the server.
    """

    def __init__(
        self, url: str, context: ssl.SSLContext | None, *, answer_seconds: float = 35.0
    ) -> None:
        self.url = url
        parts = urlsplit(url)
        self._above = parts.path
        self._answer_seconds = answer_seconds
        self._server = parts.scheme, parts.hostname or "", parts.port
        self._context = context
        self._own = threading.local()
        self._all: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes | memoryview = b"",
        headers: Mapping[str, str],
        into: memoryview | None = None,
        until: float = math.inf,
    ) -> Reply:
        """Send a request once; return the answer.

        Args:
            method: Method of the request.
            path: Path and parameters, encoded.
            body: Body of the request.
            headers: Headers.
            into: Memory for the body of a success.
            until: End of the request, in seconds of ``time.monotonic``.

        Raises:
            NoAnswerError: No answer came, or not all of it.
            ServiceError: The body is longer than ``into``, or than 64 MiB.
        """
        connection, request = self._connection(until), f"{method} {self.url}{path}"
        try:
            known = {**headers, "accept-encoding": "identity"}
            connection.request(method, self._above + path, body, known)
            with connection.getresponse() as answer:
                reply = _read(answer, request, into, until)
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise NoAnswerError(f"{type(error).__name__}: {error}", wait_s=None) from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise NoAnswerError(f"{type(error).__name__}: {error}") from error
        except BaseException:
            connection.close()
            raise
        self._own.used = time.monotonic()
        return reply

    def close(self) -> None:
        """Close all connections; requests of other threads get no answer."""
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()

    def _connection(self, until: float) -> http.client.HTTPConnection:
        """Return the connection of this thread, opened again if the server may have closed it."""
        seconds = max(0.001, min(self._answer_seconds, until - time.monotonic()))
        found: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if found is None:
            found = self._own.connection = self._made()
            with self._lock:
                self._all.append(found)
        elif time.monotonic() - getattr(self._own, "used", 0.0) > _FRESH_SECONDS:
            found.close()
        found.timeout = seconds
        if found.sock is not None:
            found.sock.settimeout(seconds)
        return found

    def _made(self) -> http.client.HTTPConnection:
        scheme, host, port = self._server
        if scheme == "http":
            return http.client.HTTPConnection(host, port)
        return http.client.HTTPSConnection(host, port, context=self._context)


def _read(
    answer: http.client.HTTPResponse, request: str, into: memoryview | None, until: float
) -> Reply:
    body = b""
    if into is None or not 200 <= answer.status < 300:
        limit = _MAX_ANSWER_BYTES
        _require_room(answer, limit, request)
        body = _bounded(answer, limit, until)
        num_bytes = len(body)
    else:
        limit = len(into)
        _require_room(answer, limit, request)
        num_bytes = 0
        while num_bytes < limit and (count := answer.readinto(into[num_bytes:])):
            num_bytes += count
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    if num_bytes > limit or answer.read(1):
        raise _too_long(request, limit)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return Reply(request, answer.status, headers, body, num_bytes)


def _bounded(answer: http.client.HTTPResponse, limit: int, until: float) -> bytes:
    if until == math.inf:
        # At once: parts that are joined take twice the time.
        return answer.read(limit + 1)
    parts, num_bytes = list[bytes](), 0
    # One part at a time: the limit of a socket is one of each read, not of all of them.
    while num_bytes <= limit and (part := answer.read1(_PART_BYTES)):
        if time.monotonic() > until:
            raise TimeoutError("the answer did not end in time")
        parts.append(part)
        num_bytes += len(part)
    return b"".join(parts)


def _require_room(answer: http.client.HTTPResponse, limit: int, request: str) -> None:
    if (answer.length or 0) > limit:
        raise _too_long(request, limit)


def _too_long(request: str, limit: int) -> ServiceError:
    return ServiceError(
        f"{printable(request)}: expected an answer of at most {limit} bytes, got more; the rest was"
        " not read"
    )


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


def checked_address(url: str) -> str:
    """Return the address of a server without a slash at its end.

    Raises:
        ConfigError: The address has another form, or would send a token unencrypted.
    """
    other = ConfigError("expected the address of a server as https://HOST[:PORT], got another one")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise other from None
    # A user without a password, or a password with a slash, which ends what is read as the host.
    has_user = parts.username is not None or "@" in parts.path
    if parts.scheme not in ("http", "https") or not parts.hostname or has_user or port == 0:
        raise other
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ConfigError(
            f"expected https:// for {parts.hostname}, which is another machine, got http://;"
            " nothing was sent"
        )
    return url.rstrip("/")


# --- The client: what a server may answer a moment later is asked again

# Statuses of a server that may answer the same request a moment later.
_PASSING: Final = frozenset({429, 502, 503, 504})
_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 5.0


class Client:
    """A client of one server, for any number of threads.

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
        self._access = access or Access()
        self._token = self._access.token()
        self._stop = threading.Event()
        self._connections = Connections(
            self.url,
            self._access.context(self.url),
            answer_seconds=min(answer_seconds, patience_seconds),
        )
        self._patience = Patience(
            calls=math.inf,
            first_pause_s=_FIRST_WAIT,
            longest_pause_s=_LONGEST_WAIT,
            longest_asked_s=_LONGEST_WAIT,
            seconds=patience_seconds,
            is_random=True,
            asked=lambda error: error.wait_s if isinstance(error, NoAnswerError) else None,
            pause=self._stop.wait,
        )

    def ask(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        body: bytes | memoryview | Mapping[str, Any] = b"",
        headers: Mapping[str, str] | None = None,
        into: memoryview | None = None,
    ) -> Reply:
        """Send a request until it is answered; return the answer, which may be a refusal.

        Args:
            method: Method of the request.
            path: Path, encoded.
            parameters: Parameters behind the path.
            body: Body of the request; a mapping is sent as JSON.
            headers: Further headers.
            into: Memory for the body of a success; a longer body is an error.

        Raises:
            ServiceUnreachableError: No answer came within ``patience_seconds``.
            ServiceError: The body does not fit.
            ConfigError: The token file cannot be used any more.
        """
        known, lost = dict(headers or {}), False
        if isinstance(body, Mapping):
            body, known["content-type"] = json.dumps(body).encode(), "application/json"
        data, place = body, f"{path}?{urlencode(parameters)}" if parameters else path

        def once() -> Reply:
            nonlocal lost
            while True:
                token = self._header()
                try:
                    reply = self._connections.ask(
                        method, place, body=data, headers={**known, **token}, into=into
                    )
                except NoAnswerError:
                    lost = True
                    raise
                if reply.status != 401 or not self._is_renewed(token):
                    break
            if reply.status in _PASSING:
                reason = f"status {reply.status}: {reply.reason()}"
                raise NoAnswerError(reason, wait_s=reply.asked_wait_s)
            return replace(reply, may_repeat=lost)

        try:
            return self._patience.call(once, None)
        except NoAnswerError as error:
            raise ServiceUnreachableError(
                f"expected an answer to {printable(f'{method} {self.url}{place}')} within"
                f" {self._patience.seconds:g} s, got {printable(str(error))}; look whether the"
                f" server runs, and whether {CA_FILE} or the settings of the data centre name the"
                " authority of its certificate"
            ) from error

    def get(self, path: str) -> Any:
        """Return the JSON answer to a GET; raises as ``post`` does."""
        return self.ask("GET", path).require_success().json()

    def get_text(self, path: str) -> str:
        """Return the answer to a GET as text; raises as ``post`` does."""
        return self.ask("GET", path).require_success().body.decode("utf-8", "replace")

    def post(self, path: str, body: Mapping[str, Any] | bytes) -> Any:
        """Send a JSON object, or its bytes, and return the JSON answer.

        Raises:
            ServiceUnreachableError: No answer came within ``patience_seconds``.
            ServiceDeniedError: The token is refused.
            ServiceRefusedError: The server refused the request.
            ServiceError: The server failed, or the answer is not of its protocol.
        """
        headers = {"content-type": "application/json"}
        return self.ask("POST", path, body=body, headers=headers).require_success().json()

    def close(self) -> None:
        """Close the connections; requests of other threads end with an error."""
        self._stop.set()
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _header(self) -> dict[str, str]:
        return {} if self._token is None else {"authorization": f"Bearer {self._token}"}

    def _is_renewed(self, refused: dict[str, str]) -> bool:
        """Read the token again; return whether it is not that of a refused header."""
        self._token = self._access.token()
        return self._header() != refused
