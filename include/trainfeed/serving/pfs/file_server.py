"""The file server: routes, threads and uploads of one data centre, until SIGTERM."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter

from trainfeed.core.datacenters import PfsPath
from trainfeed.serving.pfs.areas import Areas, Disk, StorageWatch
from trainfeed.serving.pfs.limits import FileLimits, Shares
from trainfeed.serving.pfs.routes import (
    DIGESTS_BYTES,
    Desk,
    add_chunk_routes,
    add_file_routes,
    add_small_routes,
    add_upload_routes,
)
from trainfeed.serving.pfs.tree import CHUNK_BYTES
from trainfeed.serving.pfs.uploads import Uploads
from trainfeed.serving.pfs.wire import BUNDLE_BYTES, DATA, FINISH, SCOPE, SMALL
from trainfeed.serving.server import Parts, ServerSettings, make_app, serve

if TYPE_CHECKING:
    from fastapi import FastAPI


# --- The file server: routes, threads and uploads of one data centre, until SIGTERM

# Bodies of bytes, by route: a chunk, the digests of all chunks of a file, a bundle with its head.
_LARGE_BODIES: Final = {
    DATA: CHUNK_BYTES,
    FINISH: DIGESTS_BYTES,
    SMALL: BUNDLE_BYTES + (1 << 20),
}
# An upload has its unfinished file and the folder of that open.
_UPLOAD_DESCRIPTORS: Final = 2


@dataclass(frozen=True)
class FileServerSettings:
    """The settings of a file server.

    Attributes:
        server: Address, files and limits of requests.
        datacenter: Name of the data centre in paths.
        mount: Folder of the data centre, with ``home`` and ``public``.
        limits: Bounds of what one user takes.
        is_local: Whether plain folders of this machine are the storage, not a mount.
    """

    server: ServerSettings
    datacenter: str
    mount: Path
    limits: FileLimits = field(default_factory=FileLimits)
    is_local: bool = False


def serve_files(
    settings: FileServerSettings, *, on_ready: Callable[[str], None] = lambda _: None
) -> None:
    """Serve homes and public files until SIGTERM or SIGINT.

    ``on_ready`` is called with the address once the server answers.

    Raises:
        ConfigError: A folder is not there or not mounted, or a setting of the server is wrong.
        StorageError: A file of the server cannot be written.
    """
    limits = settings.limits
    descriptors = limits.small_descriptors + _UPLOAD_DESCRIPTORS * limits.all_uploads
    app = make_file_server(settings)
    serve(app, settings.server, on_ready=on_ready, descriptors=descriptors)


def make_file_server(settings: FileServerSettings) -> FastAPI:
    """Return the app of a file server.

    Raises:
        ConfigError: A folder is not there or not mounted, or a setting of the server is wrong.
    """
    # The name is checked once, as a part of a path.
    name = PfsPath(settings.datacenter, "public", None, ()).datacenter
    mount, is_local = settings.mount, settings.is_local
    areas = Areas(name, mount / "home", mount / "public", is_local=is_local)
    disk = Disk()
    desk = Desk(areas, disk, Shares(settings.limits), Uploads(disk, settings.limits))
    router = APIRouter()
    for add in (add_file_routes, add_chunk_routes, add_upload_routes, add_small_routes):
        add(router, desk)
    scopes = dict.fromkeys({getattr(route, "path", "") for route in router.routes}, SCOPE)
    parts = Parts()
    parts.add("threads", disk.is_well)
    return make_app(
        router,
        settings.server,
        scopes=scopes,
        lifespan=_lifespan(desk, parts),
        parts=parts,
        large_bodies=_LARGE_BODIES,
    )


def _lifespan(desk: Desk, parts: Parts) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        # Each end is reached, whatever the ones before it raise.
        async with AsyncExitStack() as ends:
            storage = StorageWatch(desk.areas.are_there)
            ends.callback(storage.close)
            parts.add("storage", storage.is_well)
            ends.callback(desk.disk.close)
            ends.push_async_callback(desk.uploads.close)
            closing = parts.start("uploads", desk.uploads.close_idle())
            ends.push_async_callback(_cancelled, closing)
            yield

    return running


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    # Its own error, if it ended before, is in the log.
    with suppress(asyncio.CancelledError, Exception):
        await task
