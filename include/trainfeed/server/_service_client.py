"""The client of every server of trainfeed: token, TLS, patience with a bound, one clear error.

Requests are JSON, and may be sent twice: an answer that was lost is asked for again.
"""

from __future__ import annotations

import json
import random
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx

from trainfeed.config import CA_FILE, service_files
from trainfeed.errors import ConfigError, ServiceError, ServiceUnreachableError
from trainfeed.printable_text import printable
from trainfeed.server._client_answers import checked_answer, refusal_text
from trainfeed.server._private_files import read_private
from trainfeed.server._server_settings import is_loopback
from trainfeed.server._tls import client_context

__all__ = ["Access", "ServiceClient"]

_MAX_TOKEN_BYTES: Final = 4096
_MAX_ANSWER_BYTES: Final = 64 << 20
# Statuses of a server that may answer the same request a moment later.
_PASSING: Final = frozenset({429, 502, 503, 504})
_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 5.0


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
                " 077; trainfeed token new NAME > FILE"
            )
        return words[0]


class ServiceClient:
    """A connection to one server, for one thread.

    Args:
        url: ``https://HOST[:PORT]``, or ``http://`` for this machine.
        access: Token and certificates; None for the files that the environment names.
        patience_seconds: Time that one request may take, with all of its tries.
        answer_seconds: Time that one try waits for the server.

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
        self.url = _checked(url)
        self._access = access or Access()
        self._patience_seconds = patience_seconds
        self._token = self._access.token()
        self._stop = threading.Event()
        ca_file = self._access.ca_file or service_files()[1]
        certificate, key = self._access.certificate, self._access.key
        # Without TLS no authority is needed: reading those of the system takes 50 ms.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.url.startswith("https"):
            context = client_context(ca_file, certificate, key)
        # Neither proxies nor .netrc of the environment: the token goes to this server only.
        self._http = httpx.Client(
            base_url=self.url,
            verify=context,
            timeout=min(answer_seconds, patience_seconds),
            trust_env=False,
            follow_redirects=False,
        )

    def get(self, path: str) -> Any:
        """Return the JSON answer to a GET; raises as ``post`` does."""
        return self._json(self._ask("GET", path, b""))

    def get_text(self, path: str) -> str:
        """Return the answer to a GET as text; raises as ``post`` does."""
        return self._ask("GET", path, b"").decode("utf-8", "replace")

    def post(self, path: str, body: Mapping[str, Any] | bytes) -> Any:
        """Send a JSON object, or bytes as they are, and return the JSON answer.

        Raises:
            ServiceUnreachableError: No answer came within ``patience_seconds``.
            ServiceDeniedError: The token is refused.
            ServiceRefusedError: The server refused the request.
            ServiceError: The server failed, or the answer is not of its protocol.
        """
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._json(self._ask("POST", path, data))

    def close(self) -> None:
        """Close the connection; a request of another thread stops waiting for its next try."""
        self._stop.set()
        self._http.close()

    def __enter__(self) -> Self:
        """Return the client, which is closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self.close()

    def _ask(self, method: str, path: str, data: bytes) -> bytes:
        until = time.monotonic() + self._patience_seconds
        wait = _FIRST_WAIT
        while True:
            status, answer, asked_wait = self._try(method, path, data)
            if status == 401 and self._has_new_token():
                continue
            if status and status not in _PASSING:
                return checked_answer(status, answer, f"{method} {self.url}{path}")
            # A random part of the wait: many clients of one server do not return at once.
            wait = max(asked_wait, wait * random.uniform(0.5, 1.0))  # noqa: S311 (no secret)
            if time.monotonic() + wait > until or self._stop.wait(wait):
                raise self._unreachable(method, path, status, answer)
            wait = min(2 * wait, _LONGEST_WAIT)

    def _try(self, method: str, path: str, data: bytes) -> tuple[int, bytes, float]:
        """Return status, body and wished wait; status 0 and the reason without an answer."""
        headers = {"content-type": "application/json"} if data else {}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        try:
            with self._http.stream(method, path, content=data or None, headers=headers) as answer:
                parts = bytearray()
                for part in answer.iter_bytes():
                    parts += part
                    if len(parts) > _MAX_ANSWER_BYTES:
                        raise ServiceError(
                            f"expected an answer of at most {_MAX_ANSWER_BYTES} bytes from"
                            f" {self.url}{path}, got more; the rest was not read"
                        )
                wished = answer.headers.get("retry-after", "0")
                wait = float(wished) if wished.isdigit() else 0.0
                return answer.status_code, bytes(parts), min(wait, _LONGEST_WAIT)
        except httpx.HTTPError as error:
            return 0, f"{type(error).__name__}: {error}".encode(), 0.0

    def _has_new_token(self) -> bool:
        """Read the token file again: its token may have been replaced since the start."""
        before, self._token = self._token, self._access.token()
        return self._token != before

    def _json(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except ValueError as error:
            raise ServiceError(
                f"expected JSON from {self.url}, got {len(data)} other bytes; is another program"
                " listening there?"
            ) from error

    def _unreachable(
        self, method: str, path: str, status: int, answer: bytes
    ) -> ServiceUnreachableError:
        got = answer.decode("utf-8", "replace")
        if status:
            got = f"status {status}: {refusal_text(answer)}"
        return ServiceUnreachableError(
            f"expected an answer to {method} {self.url}{path} within"
            f" {self._patience_seconds:g} s, got {printable(got)}; look whether the server runs,"
            f" and whether {CA_FILE} names the authority of its certificate"
        )


def _checked(url: str) -> str:
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
