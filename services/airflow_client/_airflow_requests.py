"""Requests of one user to an Airflow on the loopback: login, JSON, pages, errors."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from services._process import ServiceError

__all__ = ["AirflowRequestError", "AirflowRequests"]

_PAGE: Final = 100


class AirflowRequestError(ServiceError):
    """The API refused a request; ``status`` is that of HTTP, 0 without an answer."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class AirflowRequests:
    """Sends requests as one user, and logs in at the first one that needs it.

    Args:
        port: Port of the API server.
        user: Name of the user.
        password: Password of the user.
    """

    def __init__(self, port: int, user: str, password: str) -> None:
        self._port = port
        self._credentials = {"username": user, "password": password}
        self._token: str | None = None

    def token(self) -> str:
        """Return the token of the user for requests; fetched once."""
        if self._token is None:
            answer = self.send("POST", "/auth/token", self._credentials, {})
            self._token = str(answer["access_token"])
        return self._token

    def pages(self, path: str, key: str, **query: str) -> Iterator[dict[str, Any]]:
        """Yield the entries below ``key`` of all pages of an answer."""
        offset = 0
        while True:
            asked = urlencode({"limit": _PAGE, "offset": offset, **query})
            page = self.call("GET", f"{path}?{asked}")[key]
            yield from page
            if len(page) < _PAGE:
                return
            offset += _PAGE

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request as the user, with a path below ``/api/v2``; return the JSON."""
        headers = {"Authorization": f"Bearer {self.token()}"}
        return self.send(method, f"/api/v2{path}", body, headers)

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> Any:
        """Send a request as nobody; return the JSON of the answer, None if it is empty.

        Raises:
            AirflowRequestError: The request was refused, or nobody answered.
        """
        server = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            text = None if body is None else json.dumps(body)
            server.request(method, path, text, {"Content-Type": "application/json", **headers})
            answer = server.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise AirflowRequestError(f"{method} {path}: no answer: {error}", status=0) from error
        finally:
            server.close()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            message = f"{method} {path}: {answer.status} {said.decode(errors='replace')}"
            raise AirflowRequestError(message, status=answer.status)
        return json.loads(said) if said else None
