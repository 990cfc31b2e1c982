"""Requests of a tree: answers as values, refusals as the errors that a mount would raise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from trainfeed.errors import ServiceError
from trainfeed.pfs.wire import error_of
from trainfeed.server import ByteClient, Reply

__all__ = ["Asking"]


class Asking:
    """The requests of one tree.

    Args:
        client: Connections to the server.
    """

    def __init__(self, client: ByteClient) -> None:
        self._client = client

    def ask(
        self,
        method: str,
        route: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        body: bytes | memoryview = b"",
        headers: Mapping[str, str] | None = None,
        into: memoryview | None = None,
    ) -> Reply:
        """Return the answer to a request; see ``ByteClient.ask``.

        Raises:
            TrainFeedError: The error that the server reported, as its own tree raised it.
            ServiceDeniedError: The token is refused.
            ServiceRefusedError: The server refused the request itself.
            ServiceError: The server failed or did not answer.
        """
        reply = self.try_to(method, route, parameters, body=body, headers=headers, into=into)
        self.require_success(reply)
        return reply

    def try_to(
        self,
        method: str,
        route: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        body: bytes | memoryview = b"",
        headers: Mapping[str, str] | None = None,
        into: memoryview | None = None,
    ) -> Reply:
        """Return the answer to a request, which may be a refusal; otherwise as ``ask``."""
        path = f"{route}?{urlencode(parameters)}" if parameters else route
        return self._client.ask(method, path, body=body, headers=headers, into=into)

    def require_success(self, reply: Reply) -> None:
        """Raise the error of an answer that is no success."""
        kind, text = reply.refusal
        if (error := error_of(kind, text)) is not None:
            raise error
        reply.require_success()

    def post(self, route: str, body: Mapping[str, Any]) -> Reply:
        """Send a JSON object; return the answer, which may be a refusal."""
        headers = {"content-type": "application/json"}
        return self.try_to("POST", route, body=json.dumps(body).encode(), headers=headers)

    def value(self, reply: Reply, key: str, kind: type) -> Any:
        """Return a value of a JSON answer.

        Raises:
            ServiceError: The answer is of another form.
        """
        try:
            found = json.loads(reply.body)[key]
        except (ValueError, TypeError, KeyError):
            found = None
        if not isinstance(found, kind):
            raise ServiceError(
                f"{reply.request}: expected JSON with {key!r}, got {reply.num_bytes} other bytes;"
                " is another program, or another version of the server, listening there?"
            )
        return found
