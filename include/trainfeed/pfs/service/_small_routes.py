"""Routes of many small files in one body."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from trainfeed.errors import ChecksumError, FormatError, TrainFeedError
from trainfeed.pfs.service._areas import Place
from trainfeed.pfs.service._bodies import ChunkResponse, announced_bytes
from trainfeed.pfs.service._desk import Desk, json_answer
from trainfeed.pfs.service._disk import refusal_of_files
from trainfeed.pfs.trees import SMALL_BYTES, DigestKind, Kind, SmallFile, is_unfinished_name
from trainfeed.pfs.wire import (
    BUNDLE_BYTES,
    BUNDLE_FILES,
    SMALL,
    SMALL_DIGESTS,
    SMALL_READ,
    Bundle,
)
from trainfeed.server import read_body, tell_audit, tell_outcome

__all__ = ["add_small_routes"]

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
        return json_answer({"errors": [error and _json(error) for error in errors]})

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
            found = await desk.disk.run(user, lambda: _digests(places))
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
    found = _read(places)
    _tell_errors(request, found)
    about = [_json(each) if isinstance(each, TrainFeedError) else {} for each in found]
    data = [b"" if isinstance(each, TrainFeedError) else each for each in found]
    return Bundle(about, data).pack()


def _read(places: Sequence[Place]) -> list[bytes | TrainFeedError]:
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


def _digests(places: Sequence[Place]) -> list[bytes | None]:
    return places[0].tree.small_digests([place.parts for place in places]) if places else []


def _text(about: Any, key: str) -> str:
    value = about.get(key) if isinstance(about, dict) else None
    if not isinstance(value, str):
        raise FormatError(f"expected a text for {key!r} of every file in the head")
    return value


def _json(error: TrainFeedError) -> dict[str, str]:
    refusal = refusal_of_files(error)
    return {"error": refusal.error, "got": refusal.got}
