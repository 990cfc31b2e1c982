"""The body of a request, counted while it comes in."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import Message, Receive, Scope

from trainfeed.server._http_refusal import Refusal

__all__ = ["Body"]

# A refused body is read up to here before the answer: many clients look for an answer only after
# they have sent everything, and get an error of the connection instead if it is closed meanwhile.
_DRAINED_BYTES: Final = 32 << 20
_DRAINED_SECONDS: Final = 5.0


class Body:
    """The body of one request.

    Args:
        scope: The ASGI scope of the request.
        receive: Returns the next part of the body.
        max_bytes: A larger body is refused.

    Attributes:
        num_bytes: Bytes that have come in.
        is_read: Whether the whole body has come in, or there is none.
    """

    def __init__(self, scope: Scope, receive: Receive, max_bytes: int) -> None:
        headers = dict(scope["headers"])
        self._announced = int(headers.get(b"content-length", b"0"))
        self._receive = receive
        self._max_bytes = max_bytes
        self.num_bytes = 0
        self.is_read = not self._announced and b"transfer-encoding" not in headers

    def require_size(self) -> None:
        """Refuse a body whose announced size is above the limit, before any of it is read."""
        if self._announced > self._max_bytes:
            raise self._too_large(f"{self._announced} bytes")

    async def receive(self) -> Message:
        """Return the next part.

        Raises:
            Refusal: The parts together are larger than the limit.
        """
        message = await self._next()
        if self.num_bytes > self._max_bytes:
            raise self._too_large("more")
        return message

    async def drain(self) -> None:
        """Read and forget the rest of the body, up to a bound of bytes and time."""
        try:
            async with asyncio.timeout(_DRAINED_SECONDS):
                while not self.is_read and self.num_bytes <= _DRAINED_BYTES:
                    if (await self._next())["type"] == "http.disconnect":
                        return
        except TimeoutError:
            return

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self.num_bytes += len(message.get("body", b""))
            self.is_read = not message.get("more_body", False)
        return message

    def _too_large(self, got: str) -> Refusal:
        return Refusal(
            413,
            "BodyTooLarge",
            expected=f"a body of at most {self._max_bytes} bytes",
            got=got,
            remedy="send smaller requests; nothing of this one was used",
        )
