"""The client of every server of trainfeed: token, TLS, bounded patience, one clear error."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

import httpx

from trainfeed.core.config import CA_FILE
from trainfeed.core.printable_text import printable
from trainfeed.errors import ServiceError, ServiceUnreachableError
from trainfeed.serving.server.client import (
    LONGEST_WAIT,
    PASSING,
    Access,
    HeldToken,
    Patience,
    checked_address,
    checked_answer,
    refusal_text,
)

# --- The client of every server of trainfeed: token, TLS, patience with a bound, one clear error

_MAX_ANSWER_BYTES: Final = 64 << 20


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
        self.url = checked_address(url)
        self._patience_seconds = patience_seconds
        access = access or Access()
        self._token = HeldToken(access)
        self._stop = threading.Event()
        # Neither proxies nor .netrc of the environment: the token goes to this server only.
        self._http = httpx.Client(
            base_url=self.url,
            verify=access.context(self.url),
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
        patience = Patience(self._patience_seconds, self._stop)
        while True:
            token = self._token.header()
            status, answer, asked_wait = self._try(method, path, data, token)
            if status == 401 and self._token.is_renewed(token):
                continue
            if status and status not in PASSING:
                return checked_answer(status, answer, f"{method} {self.url}{path}")
            if not patience.waits(asked_wait):
                raise self._unreachable(method, path, status, answer)

    def _try(
        self, method: str, path: str, data: bytes, token: Mapping[str, str]
    ) -> tuple[int, bytes, float]:
        """Return status, body and wished wait; status 0 and the reason without an answer."""
        headers = {**token, **({"content-type": "application/json"} if data else {})}
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
                return answer.status_code, bytes(parts), min(wait, LONGEST_WAIT)
        except httpx.HTTPError as error:
            return 0, f"{type(error).__name__}: {error}".encode(), 0.0

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


# --- The clients of every server of trainfeed, without a web framework

# Each of the two clients has a library of its own, and a program uses one of them.
