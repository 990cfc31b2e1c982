"""Bodies of chunks: into one buffer on their way in, in pieces on their way out."""

from __future__ import annotations

import hashlib
import hmac
from contextlib import AsyncExitStack
from typing import Final, Self

import crc32c
from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from trainfeed.pfs.wire import Header
from trainfeed.server import Refusal

__all__ = ["ChunkResponse", "announced_bytes", "require_digest"]

# Larger pieces are encrypted at once and copied; smaller ones cost more calls.
_PIECE_BYTES: Final = 256 << 10


def announced_bytes(request: Request) -> int:
    """Return the size of the body.

    Raises:
        Refusal: The request does not say it.
    """
    if (size := request.headers.get("content-length")) is None:
        raise Refusal(
            411,
            "LengthRequired",
            expected="a body whose Content-Length is known",
            got="none",
            remedy="send the size of the body with it; nothing was used",
        )
    return int(size)


def require_digest(request: Request, body: bytearray) -> None:
    """Compare a body with its digest, in a thread.

    Raises:
        Refusal: The request has no digest, or another one.
    """
    if (wanted := request.headers.get(Header.SHA256)) is not None:
        name, found = Header.SHA256, hashlib.sha256(body).hexdigest()
    elif (wanted := request.headers.get(Header.CRC32C)) is not None:
        name, found = Header.CRC32C, f"{crc32c.crc32c(body):08x}"
    else:
        raise _wrong_digest(f"the digest of the body as {Header.SHA256} or {Header.CRC32C}", "none")
    if not hmac.compare_digest(found.encode(), wanted.lower().encode()):
        raise _wrong_digest(f"a body with the digest of its {name}", "another body")


def _wrong_digest(expected: str, got: str) -> Refusal:
    return Refusal(
        422,
        "ChecksumError",
        expected=expected,
        got=got,
        remedy="send the chunk again with its digest; nothing of this one was used",
    )


class ChunkResponse(Response):
    """The bytes of a chunk, handed over in pieces that the connection takes one after another."""

    _held: AsyncExitStack | None = None

    def holding(self, held: AsyncExitStack) -> Self:
        """Keep what a handler holds, such as memory of a user, until the answer is sent."""
        self._held = held.pop_all()
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the answer."""
        async with self._held or AsyncExitStack():
            start = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **start})
            view = memoryview(self.body)
            for offset in range(0, len(view) or 1, _PIECE_BYTES):
                end = offset + _PIECE_BYTES
                piece = {"body": view[offset:end], "more_body": end < len(view)}
                await send({"type": "http.response.body", **piece})
