"""Routes of uploads: begin, send chunks, ask what is there, finish, abort."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from trainfeed.pfs.service._bodies import announced_bytes, require_digest
from trainfeed.pfs.service._desk import Desk, json_answer
from trainfeed.pfs.service._open_upload import OpenUpload, UploadKey
from trainfeed.pfs.trees import CHUNK_BYTES, DigestKind, SourceState
from trainfeed.pfs.wire import DATA, FINISH, PRESENT, UPLOADS
from trainfeed.server import Refusal, read_body, tell_audit

__all__ = ["DIGESTS_BYTES", "add_upload_routes"]

# Work that takes longer goes on, and the client asks again.
_WAIT_SECONDS: Final = 10.0
# The digests of a file of this size are a body that the server takes.
_MAX_FILE_BYTES: Final = 1 << 40

# Most bytes of the digests of all chunks of a file.
DIGESTS_BYTES: Final = _MAX_FILE_BYTES // CHUNK_BYTES * max(kind.num_bytes for kind in DigestKind)

_Offset = Annotated[int, Query(ge=0, le=_MAX_FILE_BYTES)]
_Upload = Annotated[str, Query(max_length=64)]


class _Begin(BaseModel):
    """The begin of an upload; see ``SourceState``."""

    model_config = ConfigDict(extra="forbid", strict=True)

    path: str
    num_bytes: Annotated[int, Field(ge=0, le=_MAX_FILE_BYTES)]
    modified_ns: Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)] = 0
    identity: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] = "0" * 32
    replace: bool = False


def add_upload_routes(router: APIRouter, desk: Desk) -> None:
    """Add the routes to a router."""

    @router.get(UPLOADS)
    async def own(request: Request) -> Response:
        user = desk.user(request)
        return json_answer({"uploads": desk.uploads.of(user)})

    @router.post(UPLOADS)
    async def begin(request: Request, asked: _Begin) -> Response:
        user = desk.user(request)
        state = SourceState(asked.num_bytes, asked.modified_ns, asked.identity)
        key = UploadKey(user, desk.place(request, asked.path, user), state, asked.replace)
        number = await desk.uploads.begin(key)
        tell_audit(request, f"{key.place.path} as {number}")
        return json_answer({"upload": number})

    @router.delete(UPLOADS)
    async def abort(request: Request, upload: _Upload) -> Response:
        user = desk.user(request)
        tell_audit(request, upload)
        await desk.uploads.abort(upload, user)
        return json_answer({"done": True})

    @router.post(DATA)
    async def write(request: Request, upload: _Upload, offset: _Offset) -> Response:
        num_bytes = announced_bytes(request)
        if num_bytes > CHUNK_BYTES:
            raise _too_large(num_bytes)
        user = desk.user(request)
        opened = await desk.uploads.opened(upload, user)
        tell_audit(request, f"{opened.key.place.path} at {offset}")
        await desk.shares.spend(user, num_bytes)
        async with desk.shares.memory(user, num_bytes):
            body = await read_body(request.scope, num_bytes)
            await desk.disk.run(user, lambda: _write(request, opened, offset, body))
        return json_answer({"written": num_bytes})

    @router.get(PRESENT)
    async def present(
        request: Request, upload: _Upload, kind: DigestKind = DigestKind.SHA256
    ) -> Response:
        user = desk.user(request)
        tell_audit(request, upload)
        found = await desk.uploads.digests(upload, user, _WAIT_SECONDS, kind)
        if found is None:
            return json_answer({"done": False}, 202)
        return json_answer({"done": True, "chunks": [digest.hex() for digest in found]})

    @router.post(FINISH)
    async def finish(
        request: Request, upload: _Upload, kind: DigestKind = DigestKind.SHA256
    ) -> Response:
        num_bytes = announced_bytes(request)
        user = desk.user(request)
        async with desk.shares.memory(user, num_bytes):
            tell_audit(request, upload)
            body = await read_body(request.scope, num_bytes)
            chunks = _split(body, kind.num_bytes)
            done = await desk.uploads.finish(upload, user, chunks, _WAIT_SECONDS, kind)
        return json_answer({"done": done}, 200 if done else 202)


def _write(request: Request, opened: OpenUpload, offset: int, body: bytearray) -> None:
    require_digest(request, body)
    opened.write(offset, body)


def _split(body: bytearray, num_bytes: int) -> tuple[bytes, ...]:
    if len(body) % num_bytes:
        raise Refusal(
            422,
            "FormatError",
            expected=f"the digest of each chunk, {num_bytes} bytes one after another",
            got=f"{len(body)} bytes",
            remedy="send the digests as bytes; the upload is as it was",
        )
    starts = range(0, len(body), num_bytes)
    return tuple(bytes(body[start : start + num_bytes]) for start in starts)


def _too_large(got: int) -> Refusal:
    return Refusal(
        413,
        "BodyTooLarge",
        expected=f"a chunk of at most {CHUNK_BYTES} bytes",
        got=f"{got} bytes",
        remedy="send chunks of this size; nothing of this one was used",
    )
