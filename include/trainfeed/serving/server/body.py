"""The body of a request, counted while it comes in."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, cast

from starlette.types import Message, Receive, Scope

from trainfeed.serving.server.refusals import Refusal

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
        seconds: Time without bytes; see ``Limits.body_seconds``.
        rate: Bytes per second; see ``Limits.body_rate``.

    Attributes:
        num_bytes: Bytes that have come in.
        max_bytes: A larger body is refused; set once the route is known.
        is_read: Whether the whole body has come in, or there is none.
        is_lost: Whether the rest of the body is not to be read: where it ends is not sure, or its
            sender waits for leave to send it.
    """

    def __init__(
        self, scope: Scope, receive: Receive, *, seconds: float = math.inf, rate: float = 1.0
    ) -> None:
        self._lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        names = {name for name, _ in scope["headers"]}
        self._version = scope.get("http_version", "1.1")
        self._is_chunked = b"transfer-encoding" in names
        self._announced = int(self._lengths[0]) if self._lengths and not self._is_chunked else 0
        self._receive = receive
        self._fill: _Fill | None = scope.get(FILL)
        self._seconds, self._rate = seconds, rate
        self._due: asyncio.Timeout | None = None
        self._begun = 0.0
        self._whole: bytes | None = None
        self.max_bytes = 0
        self.num_bytes = 0
        self.is_read = not self._announced and not self._is_chunked
        self.is_lost = b"expect" in names

    def require_framing(self) -> None:
        """Refuse a body whose end two readers can see at two places.

        Raises:
            Refusal: The request has Content-Length and Transfer-Encoding, several lengths, or
                Transfer-Encoding in a version of HTTP that does not have it.
        """
        is_old = self._is_chunked and self._version != "1.1"
        if not is_old and len(self._lengths) + self._is_chunked <= 1:
            return
        self.is_lost = True
        raise Refusal(
            400,
            "FramingRefused",
            expected="the size of the body once, as Content-Length or, in HTTP/1.1, chunked",
            got="both, or more than one",
            remedy="send one of them; the connection is closed and nothing was used",
        )

    @property
    def may_bytes(self) -> int:
        """The most bytes that the body can have."""
        return self.max_bytes if self._is_chunked else self._announced

    def require_size(self) -> None:
        """Refuse a body whose announced size is above the limit, before any of it is read."""
        if self._announced > self.max_bytes:
            raise self._too_large(f"{self._announced} bytes")

    async def read_whole(self) -> None:
        """Read the body, which ``receive`` then returns as one part.

        Raises:
            Refusal: The body is larger than the limit, too slow, or the connection ended within it.
        """
        parts = list[bytes]()
        async with self._paced():
            while not self.is_read:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    raise _incomplete(self.may_bytes, "the end of the connection")
                parts.append(message.get("body", b""))
        self._whole = b"".join(parts)

    async def receive(self) -> Message:
        """Return the next part.

        Raises:
            Refusal: The parts together are larger than the limit.
        """
        if self._whole is not None:
            whole, self._whole = self._whole, None
            return {"type": "http.request", "body": whole, "more_body": False}
        message = await self._next()
        if self.num_bytes > self.max_bytes:
            raise self._too_large("more")
        return message

    async def into(self, view: memoryview) -> None:
        """Fill memory with the body, which has exactly its size.

        Raises:
            Refusal: The request does not announce this size, the body is too slow, or the
                connection ended within it.
        """
        if self._announced != len(view):
            raise _incomplete(len(view), f"an announced size of {self._announced}")
        done = 0
        async with self._paced():
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

    @asynccontextmanager
    async def _paced(self) -> AsyncIterator[None]:
        """Refuse a body that comes too slowly: where it stands still, or byte after byte."""
        self._begun = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(self._begun + self._seconds) as self._due:
                yield
        except TimeoutError:
            if self._due is None or not self._due.expired():
                raise
            self.is_lost = True
            raise Refusal(
                408,
                "BodyTooSlow",
                expected=f"bytes of the body within {self._seconds:g} s, and then at least"
                f" {self._rate:g} per second",
                got=f"{self.num_bytes} bytes",
                remedy="send the request again over a faster connection; nothing of it was used",
            ) from None
        finally:
            self._due = None

    def _count(self, num_bytes: int) -> None:
        self.num_bytes += num_bytes
        if self._due is not None and not self._due.expired():
            self._due.reschedule(self._begun + self._seconds + self.num_bytes / self._rate)

    async def drain(self) -> None:
        """Read and forget the rest of the body, up to a bound of bytes and time."""
        if self.is_lost:
            return
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
            self.is_lost = False
            self._count(len(message.get("body", b"")))
            self.is_read = not message.get("more_body", False)
        return message

    def _too_large(self, got: str) -> Refusal:
        return Refusal(
            413,
            "BodyTooLarge",
            expected=f"a body of at most {self.max_bytes} bytes",
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
