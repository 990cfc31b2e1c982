"""Routes of bytes: digests of the chunks of a file, and parts of it."""

from __future__ import annotations

import re
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from trainfeed.errors import FileReplacedError
from trainfeed.pfs.service._areas import Place
from trainfeed.pfs.service._bodies import ChunkResponse
from trainfeed.pfs.service._desk import Desk, json_answer
from trainfeed.pfs.trees import (
    CHUNK_BYTES,
    DigestKind,
    Source,
    SourceState,
    chunk_count,
    chunk_size,
)
from trainfeed.pfs.wire import CHUNKS, DATA, MAX_READ_BYTES, Header
from trainfeed.server import Refusal

__all__ = ["add_chunk_routes"]

# An answer has the digests that were computed within this time, at least one.
_HASHING_SECONDS: Final = 5.0
# Numbers of chunks and places in files: not below 0, and not above what a file can have.
_MAX_PLACE: Final = 1 << 62
_Index = Annotated[int, Query(ge=0, lt=_MAX_PLACE)]
_Place = Annotated[int | None, Query(lt=_MAX_PLACE)]
_RANGE: Final = re.compile(r"bytes=(\d{1,18})-(\d{1,18})?")


def add_chunk_routes(router: APIRouter, desk: Desk) -> None:
    """Add the routes to a router."""

    @router.get(CHUNKS)
    async def digests(
        request: Request, path: str, first: _Index = 0, kind: DigestKind = DigestKind.SHA256
    ) -> Response:
        wanted = request.headers.get(Header.EXPECTED_STATE)
        user = desk.user(request)
        async with desk.shares.memory(user, CHUNK_BYTES):
            place = desk.place(request, path, user)
            work = partial(_digests, place, first, wanted, kind)
            return json_answer(await desk.disk.run(user, work))

    @router.get(DATA)
    async def data(
        request: Request, path: str, offset: _Place = None, size: _Place = None
    ) -> Response:
        wanted = request.headers.get(Header.EXPECTED_STATE)
        asked = _asked(request.headers.get("range"), offset, size)
        async with AsyncExitStack() as held:
            user = desk.user(request)
            place = desk.place(request, path, user)
            await desk.shares.spend(user, asked[1])
            await held.enter_async_context(desk.shares.memory(user, asked[1]))
            return (await desk.disk.run(user, partial(_read, place, asked, wanted))).holding(held)


def _asked(header: str | None, offset: int | None, size: int | None) -> tuple[int, int]:
    """Return offset and size of the part that a request names by ``Range`` or by parameters."""
    if header is not None:
        found = _RANGE.fullmatch(header)
        if found is None or offset is not None or size is not None:
            raise _refused_range(f"one range such as bytes=0-{CHUNK_BYTES - 1}, and no offset")
        offset = int(found[1])
        size = MAX_READ_BYTES if found[2] is None else int(found[2]) + 1 - offset
    offset, size = offset or 0, MAX_READ_BYTES if size is None else size
    if offset < 0 or not 0 < size <= MAX_READ_BYTES:
        raise _refused_range(f"an offset from 0, and a size from 1 to {MAX_READ_BYTES} bytes")
    return offset, size


def _refused_range(expected: str) -> Refusal:
    return Refusal(
        416,
        "RangeRefused",
        expected=expected,
        got="another range",
        remedy="ask for parts of the file, one after another",
    )


def _read(place: Place, asked: tuple[int, int], wanted: str | None) -> ChunkResponse:
    """Return a part of a file, shorter at its end, with the state and the size of the file."""
    offset, size = asked
    source = place.tree.open_source(place.parts)
    try:
        state = _required_state(source, place, wanted)
        body = bytearray(max(0, min(size, source.state.num_bytes - offset)))
        count = source.read_into(offset, memoryview(body))
        total = source.state.num_bytes
    finally:
        source.close()
    if count != len(body):
        raise _changed(place)
    headers = {Header.STATE.value: state, "accept-ranges": "bytes"}
    if count:
        headers["content-range"] = f"bytes {offset}-{offset + count - 1}/{total}"
    status = 206 if count and count != total else 200
    return ChunkResponse(memoryview(body), status, headers, media_type="application/octet-stream")


def _digests(place: Place, first: int, wanted: str | None, kind: DigestKind) -> dict[str, Any]:
    source = place.tree.open_source(place.parts)
    try:
        state, num_bytes = _required_state(source, place, wanted), source.state.num_bytes
        chunks = _hashed(source, place, first, kind)
    finally:
        source.close()
    return {
        "num_bytes": num_bytes,
        "chunk_bytes": CHUNK_BYTES,
        "first": first,
        "chunks": chunks,
        "is_complete": first + len(chunks) >= chunk_count(num_bytes),
        "state": state,
    }


def _hashed(source: Source, place: Place, first: int, kind: DigestKind) -> list[str]:
    until, buffer = time.monotonic() + _HASHING_SECONDS, bytearray(CHUNK_BYTES)
    num_bytes, found = source.state.num_bytes, list[str]()
    for index in range(first, chunk_count(num_bytes)):
        view = memoryview(buffer)[: chunk_size(num_bytes, index)]
        if source.read_into(index * CHUNK_BYTES, view) != len(view):
            raise _changed(place)
        found.append(kind.of(view).hex())
        if time.monotonic() > until:
            break
    return found


def _required_state(source: Source, place: Place, wanted: str | None) -> str:
    """Return the state of a file; a reader of several parts names the state of the first."""
    found = _state(source.state)
    if wanted not in (None, found):
        raise _changed(place)
    return found


def _state(state: SourceState) -> str:
    return f'"{state.num_bytes}-{state.modified_ns}"'


def _changed(place: Place) -> FileReplacedError:
    return FileReplacedError(
        f"{place.path}: the file was changed or replaced while it was read; nothing was changed;"
        " read it again from its beginning"
    )
