"""The file server: routes, threads and uploads of one data centre, until SIGTERM."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter

from trainfeed.datacenters import PfsPath
from trainfeed.pfs.service._areas import Areas
from trainfeed.pfs.service._chunk_routes import add_chunk_routes
from trainfeed.pfs.service._desk import Desk
from trainfeed.pfs.service._disk import Disk
from trainfeed.pfs.service._file_routes import add_file_routes
from trainfeed.pfs.service._shares import FileLimits, Shares
from trainfeed.pfs.service._small_routes import add_small_routes
from trainfeed.pfs.service._upload_routes import add_upload_routes
from trainfeed.pfs.service._uploads import Uploads
from trainfeed.pfs.wire import BUNDLE_BYTES, SCOPE
from trainfeed.server import ServerSettings, make_app, serve

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["FileServerSettings", "make_file_server", "serve_files"]

# A bundle of small files, with its head, is the largest body.
BODY_BYTES: Final = BUNDLE_BYTES + (1 << 20)


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
    serve(make_file_server(settings), settings.server, on_ready=on_ready)


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
    limits = replace(settings.server.limits, body_bytes=BODY_BYTES)
    server = replace(settings.server, limits=limits)
    scopes = dict.fromkeys({getattr(route, "path", "") for route in router.routes}, SCOPE)
    return make_app(router, server, scopes=scopes, lifespan=_lifespan(desk))


def _lifespan(desk: Desk) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        # Each end is reached, whatever the ones before it raise.
        async with AsyncExitStack() as ends:
            ends.callback(desk.disk.close)
            ends.push_async_callback(desk.uploads.close)
            ends.push_async_callback(_cancelled, asyncio.create_task(desk.uploads.close_idle()))
            yield

    return running


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
