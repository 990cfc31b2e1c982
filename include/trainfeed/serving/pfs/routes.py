"""The routes of the file server: names, chunks, uploads, and many small files in one body."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Literal, Self

import crc32c
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from trainfeed.errors import (
    AccessDeniedError,
    ChecksumError,
    FileReplacedError,
    FormatError,
    TrainFeedError,
)
from trainfeed.serving.pfs.areas import Areas, Disk, Place, refusal_of_files
from trainfeed.serving.pfs.limits import Shares
from trainfeed.serving.pfs.tree import (
    CHUNK_BYTES,
    SMALL_BYTES,
    DigestKind,
    Kind,
    SmallFile,
    Source,
    SourceState,
    chunk_count,
    chunk_size,
    is_unfinished_name,
)
from trainfeed.serving.pfs.uploads import OpenUpload, UploadKey, Uploads
from trainfeed.serving.pfs.wire import (
    BUNDLE_BYTES,
    BUNDLE_FILES,
    CHUNKS,
    DATA,
    FILES,
    FINISH,
    MAX_READ_BYTES,
    PRESENT,
    SMALL,
    SMALL_DIGESTS,
    SMALL_READ,
    UPLOADS,
    Bundle,
    Header,
    entry_json,
    state_text,
)
from trainfeed.serving.server import Refusal, caller_of, read_body, tell_audit, tell_outcome

# --- The state that all routes of files use: areas, threads, shares of users, uploads


@dataclass(frozen=True)
class Desk:
    """The parts of a file server that its routes share.

    Attributes:
        areas: Paths → trees.
        disk: Threads for the work on files.
        shares: Bounds of what one user takes.
        uploads: The open uploads.
    """

    areas: Areas
    disk: Disk
    shares: Shares
    uploads: Uploads

    def user(self, request: Request) -> str:
        """Return the name of the caller, which is that of its user."""
        return caller_of(request).name

    def place(self, request: Request, text: str, user: str) -> Place:
        """Return the place of a path, which the audit of the request gets.

        Raises:
            Refusal: The path is none, or is not one of this user.
        """
        tell_audit(request, text)
        try:
            return self.areas.place(text, user)
        except TrainFeedError as error:
            raise refusal_of_files(error) from error


def json_answer(value: Any, status: int = 200) -> Response:
    """Return a value as JSON in ASCII, which holds names that are not UTF-8 too."""
    return Response(json.dumps(value), status, media_type="application/json")


# --- Bodies of chunks: into one buffer on their way in, in pieces on their way out

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


# --- Routes of names: list, look, make, rename and remove

# Entries of one answer; the next ones are asked for by the last name.
_MAX_ENTRIES: Final = 10_000


class _Change(BaseModel):
    """A change of names.

    Attributes:
        method: Kind of the change; ``sync`` makes the names in a folder durable.
        path: Complete path.
        target: New path of ``mv``.
        parents: Whether ``mkdir`` makes the folders above, and keeps a folder that is there.
        replace: Whether ``mv`` replaces a file.
        recursive: Whether ``sync`` goes on in all folders below.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    method: Literal["mkdir", "touch", "mv", "sync"]
    path: str
    target: str | None = None
    parents: bool = False
    replace: bool = False
    recursive: bool = True


def add_file_routes(router: APIRouter, desk: Desk) -> None:
    """Add the routes to a router."""

    @router.get(FILES)
    async def look(
        request: Request, path: str, method: Literal["ls", "stat"] = "ls", after: str = ""
    ) -> Response:
        user = desk.user(request)
        place = desk.place(request, path, user)
        if method == "stat":
            entry = await desk.disk.run(user, partial(place.tree.stat, place.parts))
            return json_answer({"entry": entry_json(entry)})
        entries = await desk.disk.run(user, partial(place.tree.entries, place.parts))
        rest = [entry for entry in entries if entry.name > after]
        shown = [entry_json(entry) for entry in rest[:_MAX_ENTRIES]]
        return json_answer({"entries": shown, "is_complete": len(rest) <= _MAX_ENTRIES})

    @router.post(FILES)
    async def change(request: Request, asked: _Change) -> Response:
        user = desk.user(request)
        place = target = desk.place(request, asked.path, user)
        if asked.method == "mv":
            target = desk.place(request, asked.target or "", user)
            tell_audit(request, f"{asked.path} to {asked.target}")
        await desk.disk.run(user, _step(asked, place, target))
        return json_answer({"done": True})

    @router.delete(FILES)
    async def remove(request: Request, path: str, *, recursive: bool = False) -> Response:
        user = desk.user(request)
        place = desk.place(request, path, user)
        await desk.disk.run(user, partial(place.tree.remove, place.parts, recursive=recursive))
        return json_answer({"done": True})


def _step(asked: _Change, place: Place, target: Place) -> Callable[[], None]:
    if asked.method == "mv":
        return partial(_rename, place, target, asked.replace)
    if asked.method == "mkdir":
        return partial(place.tree.make_folder, place.parts, parents=asked.parents)
    if asked.method == "sync" and asked.recursive:
        return partial(place.tree.sync_names, place.parts)
    if asked.method == "sync":
        return partial(place.tree.sync_names_of, [(*place.parts, "any")])
    return partial(_touch, place)


def _touch(place: Place) -> None:
    """Make an empty file, unless something has the name."""
    file = SmallFile(place.parts, b"")
    (error,) = place.tree.put_small([file], replace=False, is_hidden=False)
    if error is not None:
        raise error


def _rename(source: Place, target: Place, replace: bool) -> None:
    if source.path.area != target.path.area:
        raise AccessDeniedError(
            "expected two paths in the home of one user, got one in the public area, which is read"
            " only; nothing was renamed"
        )
    source.tree.rename(source.parts, target.parts, replace=replace)


# --- Routes of bytes: digests of the chunks of a file, and parts of it

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
    found = state_text(source.state)
    if wanted not in (None, found):
        raise _changed(place)
    return found


def _changed(place: Place) -> FileReplacedError:
    return FileReplacedError(
        f"{place.path}: the file was changed or replaced while it was read; nothing was changed;"
        " read it again from its beginning"
    )


# --- Routes of uploads: begin, send chunks, ask what is there, finish, abort

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


# --- Routes of many small files in one body

# Room for what the head of a bundle says about each file.
_HEAD_BYTES: Final = 1 << 20
# Files that are read before the room in a bundle is looked at; together as large as a bundle.
_READ_AT_ONCE: Final = BUNDLE_BYTES // SMALL_BYTES
# Bytes of paths in a line of the audit, which has room for 4,096 bytes about a request.
_AUDITED_BYTES: Final = 3900

_Paths = Annotated[list[str], Field(max_length=BUNDLE_FILES)]


class _Names(BaseModel):
    """Complete paths of small files, all in one area."""

    model_config = ConfigDict(extra="forbid", strict=True)

    paths: _Paths


def add_small_routes(router: APIRouter, desk: Desk) -> None:
    """Add the routes to a router."""

    @router.post(SMALL)
    async def put(request: Request) -> Response:
        num_bytes = announced_bytes(request)
        user = desk.user(request)
        await desk.shares.spend(user, num_bytes)
        async with desk.shares.memory(user, 2 * num_bytes):
            body = await read_body(request.scope, num_bytes)
            bundle, paths = await desk.disk.run(user, lambda: _unpacked(body))
            async with desk.shares.descriptors(user, _folders(paths) + len(paths)):
                errors = await desk.disk.run(user, lambda: _put(desk, request, user, paths, bundle))
        _tell_errors(request, errors)
        return json_answer({"errors": [error and _json_small(error) for error in errors]})

    @router.post(SMALL_READ)
    async def get(request: Request, asked: _Names) -> Response:
        async with AsyncExitStack() as held:
            user = desk.user(request)
            await held.enter_async_context(desk.shares.memory(user, 2 * BUNDLE_BYTES))
            async with desk.shares.descriptors(user, _folders(asked.paths)):
                body = await desk.disk.run(user, lambda: _get(desk, request, user, asked.paths))
            await desk.shares.spend(user, len(body))
            return ChunkResponse(body, media_type="application/octet-stream").holding(held)

    @router.post(SMALL_DIGESTS)
    async def digests(request: Request, asked: _Names) -> Response:
        user = desk.user(request)
        places, num_bytes = await desk.disk.run(
            user, lambda: _sized(_places(desk, request, user, asked.paths))
        )
        await desk.shares.spend(user, num_bytes)
        # Files are read one after another.
        async with (
            desk.shares.memory(user, SMALL_BYTES),
            desk.shares.descriptors(user, _folders(asked.paths)),
        ):
            found = await desk.disk.run(user, lambda: _digests_small(places))
        return json_answer({"digests": [digest and digest.hex() for digest in found]})


def _tell_errors(request: Request, found: Sequence[object]) -> None:
    """Tell the audit of files that were refused, although the request itself succeeds."""
    errors = [each for each in found if isinstance(each, TrainFeedError)]
    if errors:
        kinds = sorted({type(each).__name__ for each in errors})
        tell_outcome(request, f"{len(errors)} of {len(found)} refused: {', '.join(kinds)}")


def _places(desk: Desk, request: Request, user: str, paths: Sequence[str]) -> list[Place]:
    tell_audit(request, _audited(paths))
    places = [desk.areas.place(path, user) for path in paths]
    if len({place.path.area for place in places}) > 1:
        raise FormatError("expected files of one area in one request, got two; nothing was done")
    return places


def _audited(paths: Sequence[str]) -> str:
    """Return the paths for the audit; if some have no room, their number and a digest of all."""
    kept, room = 0, _AUDITED_BYTES
    while kept < len(paths) and (room := room - len(json.dumps(paths[kept]))) >= 0:
        kept += 1
    text = f"{len(paths)} files: {' '.join(paths[:kept])}"
    if kept == len(paths):
        return text
    lines = "".join(f"{path}\n" for path in paths).encode(errors="surrogatepass")
    digest = hashlib.sha256(lines).hexdigest()
    return f"{text} … and {len(paths) - kept} more; SHA-256 of all paths as lines: {digest}"


def _unpacked(body: bytearray) -> tuple[Bundle, list[str]]:
    bundle = Bundle.unpack(body)
    return bundle, [_text(about, "path") for about in bundle.about]


def _folders(paths: Sequence[str]) -> int:
    """Return the number of descriptors of folders above files, and of one file that is read."""
    return 1 + len({path.rpartition("/")[0] for path in paths})


def _put(
    desk: Desk, request: Request, user: str, paths: Sequence[str], bundle: Bundle
) -> list[TrainFeedError | None]:
    places = _places(desk, request, user, paths)
    if not places:
        return []
    _require_different(places)
    files = [
        _checked(place, about, data)
        for place, about, data in zip(places, bundle.about, bundle.data, strict=True)
    ]
    return places[0].tree.put_small(
        files,
        replace=bundle.options.get("replace") is True,
        # Only a folder with an unfinished name hides a file that a kill cuts.
        is_hidden=bundle.options.get("is_hidden") is True and all(map(_is_hidden, places)),
    )


def _is_hidden(place: Place) -> bool:
    return any(map(is_unfinished_name, place.parts[:-1]))


def _require_different(places: Sequence[Place]) -> None:
    """Refuse a name that comes twice: one file would be removed by the check of the other."""
    if len({place.parts for place in places}) < len(places):
        raise FormatError(
            "expected each path once in a request, got one twice; no file of the request was"
            " written; send each file once"
        )


def _checked(place: Place, about: dict[str, Any], data: bytes) -> SmallFile:
    if len(data) > SMALL_BYTES:
        raise FormatError(
            f"{place.path}: expected at most {SMALL_BYTES} bytes, got {len(data)}; no file of the"
            " request was written; send it as an upload"
        )
    kind = DigestKind.XXH3 if DigestKind.XXH3.value in about else DigestKind.SHA256
    if kind.of(data).hex() != _text(about, kind.value):
        raise ChecksumError(
            f"{place.path}: expected bytes with the digest {kind.value} that came with them, got"
            " others; no file of the request was written; send them again"
        )
    return SmallFile(place.parts, data)


def _get(desk: Desk, request: Request, user: str, paths: Sequence[str]) -> bytes:
    """Return a bundle of files and errors; files beyond the size of a bundle are left out."""
    places = _places(desk, request, user, paths)
    found = _read_small(places)
    _tell_errors(request, found)
    about = [_json_small(each) if isinstance(each, TrainFeedError) else {} for each in found]
    data = [b"" if isinstance(each, TrainFeedError) else each for each in found]
    return Bundle(about, data).pack()


def _read_small(places: Sequence[Place]) -> list[bytes | TrainFeedError]:
    """Return the first files that fit in one bundle, or their errors; at least one."""
    kept, room = list[bytes | TrainFeedError](), BUNDLE_BYTES - _HEAD_BYTES
    for start in range(0, len(places), _READ_AT_ONCE):
        some = places[start : start + _READ_AT_ONCE]
        for each in some[0].tree.get_small([place.parts for place in some]):
            room -= len(each) if isinstance(each, bytes) else 0
            if room < 0 and kept:
                return kept
            kept.append(each)
    return kept


def _sized(places: list[Place]) -> tuple[list[Place], int]:
    """Return places, and the size in bytes of all small files there."""
    return places, sum(map(_size, places))


def _size(place: Place) -> int:
    try:
        entry = place.tree.stat(place.parts)
    except TrainFeedError:
        return 0
    # What is larger, or no file, is answered with an error.
    return entry.num_bytes if entry.kind is Kind.FILE and entry.num_bytes <= SMALL_BYTES else 0


def _digests_small(places: Sequence[Place]) -> list[bytes | None]:
    return places[0].tree.small_digests([place.parts for place in places]) if places else []


def _text(about: Any, key: str) -> str:
    value = about.get(key) if isinstance(about, dict) else None
    if not isinstance(value, str):
        raise FormatError(f"expected a text for {key!r} of every file in the head")
    return value


def _json_small(error: TrainFeedError) -> dict[str, str]:
    refusal = refusal_of_files(error)
    return {"error": refusal.error, "got": refusal.got}
