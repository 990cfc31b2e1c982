"""Requests of one user to an Airflow on the loopback: login, JSON, pages, errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from services._process import ServiceError

_PAGE: Final = 100
_ANSWER_S: Final = 30.0


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
        # Loaded here: the scheduler imports this package, and needs no client.
        from trainfeed.serving.server import Connections

        self._server = Connections(f"http://127.0.0.1:{port}", None, answer_seconds=_ANSWER_S)
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
        from trainfeed.serving.server import NoAnswerError

        known = {"content-type": "application/json", "connection": "close", **headers}
        data = b"" if body is None else json.dumps(body).encode()
        try:
            reply = self._server.ask(method, path, body=data, headers=known)
        except NoAnswerError as error:
            raise AirflowRequestError(f"{method} {path}: no answer: {error}", status=0) from error
        if reply.status >= HTTPStatus.BAD_REQUEST:
            message = f"{method} {path}: {reply.status} {reply.body.decode(errors='replace')}"
            raise AirflowRequestError(message, status=reply.status)
        return json.loads(reply.body) if reply.body else None
