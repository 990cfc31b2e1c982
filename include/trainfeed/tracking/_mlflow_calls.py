"""Requests to an MLflow tracking server: its REST interface, version 2.0.

MLflow's own client is not used: it reads its token and its time limits from variables of the
process, which every thread and child of the launching side would see; by default it repeats a
request seven times with two minutes each; and it reports its use to its makers. These requests are
bounded by one deadline, follow no redirect, use no proxy, and take only the settings that they are
given.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPException
from typing import IO, Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from trainfeed.errors import TrackingError
from trainfeed.printable_text import printable, without_secrets
from trainfeed.tracking._mlflow_settings import MlflowSettings

__all__ = ["EXISTS", "MISSING", "MlflowCalls"]

EXISTS: Final = "RESOURCE_ALREADY_EXISTS"
MISSING: Final = "RESOURCE_DOES_NOT_EXIST"
_PATH: Final = "/api/2.0/mlflow/"
_MOST_BYTES: Final = 16 << 20
_MOST_SHOWN: Final = 300


class MlflowCalls:
    """The requests of one delivery, with one deadline for all of them.

    Args:
        settings: Address, credentials and time limit.

    Raises:
        TrackingError: The file of certificates cannot be read.
    """

    def __init__(self, settings: MlflowSettings) -> None:
        self._settings = settings
        self._end_s = time.monotonic() + settings.timeout_s
        self._opener = _opener(settings)

    @property
    def left_s(self) -> float:
        """Seconds that are left.

        Raises:
            TrackingError: None are left.
        """
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise TrackingError(
                f"{self._settings.url} took more than {self._settings.timeout_s:g} s (timeout_s)"
            )
        return left_s

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """Return the answer to a question.

        Raises:
            TrackingError: The server refused, failed or did not answer; ``code`` is MLflow's.
        """
        return self._send(Request(f"{self._url(path)}?{urlencode(query)}"))  # noqa: S310 - http(s)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request that changes something; see ``get``."""
        data = json.dumps(body, allow_nan=False).encode()
        kind = {"Content-Type": "application/json"}
        return self._send(Request(self._url(path), data, kind, method="POST"))  # noqa: S310

    def _url(self, path: str) -> str:
        return f"{self._settings.url}{_PATH}{path}"

    def _send(self, request: Request) -> dict[str, Any]:
        if (secret := _authorization(self._settings)) is not None:
            request.add_unredirected_header("Authorization", secret)
        try:
            with self._opener.open(request, timeout=self.left_s) as answer:
                found = json.loads(self._read(answer))
        except HTTPError as error:
            with error:
                raise self._refused(error) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = printable(str(getattr(error, "reason", error)))[:_MOST_SHOWN]
            raise TrackingError(f"{self._settings.url} did not answer: {reason}") from error
        if not isinstance(found, dict):
            raise TrackingError(f"expected a JSON object from {self._settings.url}, got another")
        return found

    def _read(self, answer: IO[bytes]) -> bytes:
        parts, size = [], 0
        # One part at a time: the limit of a socket is one of each read, not of all of them.
        while part := answer.read1(1 << 16):  # type: ignore[attr-defined]
            parts.append(part)
            size += len(part)
            _ = self.left_s  # an error when the time is over
            if size > _MOST_BYTES:
                raise TrackingError(f"{self._settings.url} answered more than {_MOST_BYTES} bytes")
        return b"".join(parts)

    def _refused(self, error: HTTPError) -> TrackingError:
        try:
            told = json.loads(self._read(error))
            code, text = str(told["error_code"]), str(told.get("message", ""))
        except (OSError, HTTPException, ValueError, KeyError, TypeError, TrackingError):
            code, text = "", ""
        said = printable(without_secrets(text))[:_MOST_SHOWN] or error.reason
        return TrackingError(
            f"{self._settings.url} refused, status {error.code} {printable(code)}: {said}",
            code=code,
        )


class _NoRedirect(HTTPRedirectHandler):
    """Treats a redirect as an error: another host must not get the token."""

    def redirect_request(self, *_: Any) -> None:
        """Return nothing, which makes the redirect an ``HTTPError``."""


def _opener(settings: MlflowSettings) -> OpenerDirector:
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
    except OSError as error:
        raise TrackingError(f"cannot read the ca_file {settings.ca_file}: {error}") from error
    # No proxy of the environment: the token goes to this server only.
    return build_opener(ProxyHandler({}), _NoRedirect, HTTPSHandler(context=context))


def _authorization(settings: MlflowSettings) -> str | None:
    if settings.token is not None:
        return f"Bearer {settings.token}"
    if settings.username is None:
        return None
    pair = f"{settings.username}:{settings.password}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"
