"""The body of a request, counted while it comes in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, cast

from starlette.types import Message, Receive, Scope

from trainfeed.server._http_refusal import Refusal

__all__ = ["BODY", "FILL", "Body", "read_body"]

# Keys of the ASGI scope: the body of a request, and the way in which a connection reads the rest
# of one into memory of a handler.
BODY: Final = "trainfeed.body"
FILL: Final = "trainfeed.fill"

# A refused body is read up to here before the answer: many clients look for an answer only after
# they have sent everything, and get an error of the connection instead if it is closed meanwhile.
_DRAINED_BYTES: Final = 32 << 20
_DRAINED_SECONDS: Final = 5.0


_Fill = Callable[[memoryview, Callable[[int], object]], Awaitable[None]]


async def read_body(scope: Scope, num_bytes: int) -> bytearray:
    """Return the body of a request of a known size, for handlers of large ones.

    Args:
        scope: The scope of the request.
        num_bytes: Size that the request announces.

    Raises:
        Refusal: The request does not announce this size, or the connection ended within the body.
    """
    buffer = bytearray(num_bytes)
    await cast("Body", scope[BODY]).into(memoryview(buffer))
    return buffer


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
        self._fill: _Fill | None = scope.get(FILL)
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

    async def into(self, view: memoryview) -> None:
        """Fill memory with the body, which has exactly its size.

        Raises:
            Refusal: The request does not announce this size, or the connection ended within the
                body.
        """
        if self._announced != len(view):
            raise _incomplete(len(view), f"an announced size of {self._announced}")
        done = 0
        while not self.is_read:
            message = await self._next()
            if message["type"] == "http.disconnect":
                raise _incomplete(len(view), f"{done}, and the end of the connection")
            part = message.get("body", b"")
            view[done : done + len(part)] = part
            done += len(part)
            if self._fill is not None and 0 < done < len(view):
                before = self.num_bytes
                await self._fill(view[done:], self._count)
                done += self.num_bytes - before

    def _count(self, num_bytes: int) -> None:
        self.num_bytes += num_bytes

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


def _incomplete(num_bytes: int, got: str) -> Refusal:
    return Refusal(
        400,
        "BodyIncomplete",
        expected=f"a body of {num_bytes} bytes",
        got=got,
        remedy="send the request again; nothing of this one was used",
    )
