"""Routes of names: list, look, make, rename and remove."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from trainfeed.errors import AccessDeniedError
from trainfeed.pfs.service._areas import Place
from trainfeed.pfs.service._desk import Desk, json_answer
from trainfeed.pfs.trees import Entry, SmallFile
from trainfeed.pfs.wire import FILES
from trainfeed.server import tell_audit

__all__ = ["add_file_routes"]

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
            return json_answer({"entry": _json(entry)})
        entries = await desk.disk.run(user, partial(place.tree.entries, place.parts))
        rest = [entry for entry in entries if entry.name > after]
        shown = [_json(entry) for entry in rest[:_MAX_ENTRIES]]
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


def _json(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": entry.kind.value,
        "num_bytes": entry.num_bytes,
        "modified_ns": entry.modified_ns,
    }
