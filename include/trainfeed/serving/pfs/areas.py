"""The areas of a file server that a caller reaches, and the storage below them.

Calls of the disk run in threads; a thread of its own looks whether the mount still answers.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from trainfeed.core.datacenters import PfsPath, is_available
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    NotFoundError,
    Outcome,
    StorageError,
    TrainFeedError,
)
from trainfeed.serving.pfs.posix import MountedTree
from trainfeed.serving.pfs.tree import Parts, Tree
from trainfeed.serving.pfs.wire import status_of
from trainfeed.serving.server import Refusal, public_text

# --- Trees of the server's areas, which refuse every call while their mount is away


class StorageDevices:
    """Devices of which it is known that they are those of shared storage. For many threads.

    Args:
        is_local: Whether plain folders of this machine are the storage.
    """

    def __init__(self, *, is_local: bool) -> None:
        self._is_local = is_local
        self._known: set[int] = set()

    def has(self, folder: Path) -> bool:
        """Return whether the files of an area are in a folder now; a slow look."""
        return is_available(folder, is_local=self._is_local)

    def has_open(self, fd: int, folder: Path) -> bool:
        """Return whether an open folder, which was just opened by its path, is of the storage."""
        device = os.fstat(fd).st_dev
        # A mount that comes back may have another device.
        if device not in self._known and self.has(folder):
            self._known.add(device)
        return device in self._known


class ServedTree(MountedTree):
    """An area on the storage of the server.

    Args:
        root: Folder of the area.
        area: The path that users have for it.
        devices: Known devices of the storage.
        read_only: Whether every change is refused.
    """

    def __init__(
        self, root: Path, area: PfsPath, devices: StorageDevices, *, read_only: bool = False
    ) -> None:
        # The server does not know which data centre is the current one of the user, so its messages
        # have complete paths.
        super().__init__(root, area, read_only=read_only, is_current=False)
        self._devices = devices

    def _open_root(self) -> int:
        fd = super()._open_root()
        if self._devices.has_open(fd, self._root):
            return fd
        os.close(fd)
        raise StorageError(
            f"{self.show(())}: the shared storage is not mounted on the server; nothing was read or"
            " written; try again later, or tell who runs the server"
        )


# --- The areas that a caller reaches: the own home, and the public files to read


@dataclass(frozen=True)
class Place:
    """A path of a request, and the tree that confines it.

    Attributes:
        path: The path.
        tree: The area of the path; the tree refuses links and, in the public area, every change.
    """

    path: PfsPath
    tree: Tree = field(compare=False)

    @property
    def parts(self) -> Parts:
        """Names below the root of the tree."""
        return self.path.parts


class Areas:
    """The homes and the public folder of one data centre.

    Args:
        datacenter: Name of the data centre.
        home: Folder whose folders are the homes.
        public: Folder of the public files.
        is_local: Whether plain folders of this machine are the storage.

    Raises:
        ConfigError: A folder is not there, or its mount is away.
    """

    def __init__(
        self, datacenter: str, home: Path, public: Path, *, is_local: bool = False
    ) -> None:
        self.datacenter = datacenter
        self._home = home
        self._public = public
        self._devices = StorageDevices(is_local=is_local)
        for folder in (home, public):
            if not self._devices.has(folder):
                got = "a plain folder" if folder.is_dir() else "none"
                raise ConfigError(
                    f"expected the folder {folder} on a mount of shared storage, got {got}; nothing"
                    " was started; mount it, or give --local if plain folders of this machine are"
                    " the storage"
                )

    def are_there(self) -> bool:
        """Return whether both folders are on the storage now; a slow look."""
        return all(self._devices.has(folder) for folder in (self._home, self._public))

    def place(self, text: str, user: str) -> Place:
        """Return the place that a text of a request names.

        Args:
            text: The complete path, as it came.
            user: Name of the caller.

        Raises:
            ConfigError: The text is no complete path, or has ``..``, a control character or a name
                above 255 bytes.
            NotFoundError: The path is in another data centre.
            AccessDeniedError: The path is in the home of another user.
        """
        if not text.startswith("/pfs/"):
            raise ConfigError("expected a path that begins with /pfs/; nothing was read or written")
        path = PfsPath.parse(text)
        if path.datacenter != self.datacenter:
            raise NotFoundError(
                f"expected a path in the data centre {self.datacenter}, which this server serves,"
                " got another one; nothing was read or written; correct the path"
            )
        if path.area == "public":
            return Place(path, self._tree(PfsPath(self.datacenter, "public", None, ())))
        if path.user != user:
            raise AccessDeniedError(
                f"expected a path in the home of {user}, whose token came, got another user's;"
                " nothing was read or written; ask for a copy in the public folder"
            )
        return Place(path, self._tree(PfsPath(self.datacenter, "home", user, ())))

    def _tree(self, area: PfsPath) -> ServedTree:
        # Trees have no state, so that a home that is made, renamed or removed is noticed at once.
        if area.user is None:
            return ServedTree(self._public, area, self._devices, read_only=True)
        return ServedTree(self._home / area.user, area, self._devices)


# --- Work on files, in threads: the loop of the server never waits for a disk

_Result = TypeVar("_Result")
_THREADS: Final = 16
# No call of a request takes as long on storage that answers.
_STUCK_SECONDS: Final = 60.0


class Disk:
    """The threads of a server; calls beyond their number wait in order. For one loop.

    One user gets at most half of the threads, so that long calls of one leave the rest.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "pfs-disk")
        # When the calls that threads are in now have begun.
        self._begun: dict[object, float] = {}
        # A share is held by the calls of its user, and leaves with the last one.
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, user: str | None, call: Callable[[], _Result]) -> _Result:
        """Return the result of a call.

        Args:
            user: Name of the user whose share of the threads counts; None for work of the server.
            call: The call.

        Raises:
            Refusal: The call raised an error of trainfeed.
        """
        share = None if user is None else self._share(user)
        if share is not None:
            await share.acquire()
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._timed, call)
        if share is not None:
            work.add_done_callback(lambda _: share.release())
        try:
            # The thread of a cancelled request counts until its call has ended.
            return await asyncio.shield(work)
        except TrainFeedError as error:
            raise refusal_of_files(error) from error

    def is_well(self) -> bool:
        """Return whether a thread is left: not all are in calls that do not end."""
        now = time.monotonic()
        return sum(now - at > _STUCK_SECONDS for at in list(self._begun.values())) < _THREADS

    def _timed(self, call: Callable[[], _Result]) -> _Result:
        mark = object()
        self._begun[mark] = time.monotonic()
        try:
            return call()
        finally:
            del self._begun[mark]

    def _share(self, user: str) -> asyncio.Semaphore:
        share = self._shares.get(user)
        if share is None:
            share = self._shares[user] = asyncio.Semaphore(_THREADS // 2)
        return share

    def close(self) -> None:
        """End the threads after the calls that they are in."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def refusal_of_files(error: TrainFeedError) -> Refusal:
    """Return the answer to an error of files; clients make the same error of it."""
    status = status_of(error)
    return Refusal(
        status,
        type(error).__name__,
        expected="a request that the shared storage can carry out",
        got=public_text(str(error)),
        remedy="try again later" if error.outcome is Outcome.RETRY else "correct the request",
        retry_after=1 if status == 503 else None,
    )


# --- Looks at the storage again and again, in a thread of its own, which alone hangs with it

_LOOK_SECONDS: Final = 2.0
# A look that takes longer is one at storage that hangs.
_LONGEST_SECONDS: Final = 20.0


class StorageWatch:
    """The state of the storage, as the last look found it.

    Args:
        is_there: Whether the storage is there; it may hang.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self, is_there: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._is_there = is_there
        self._clock = clock
        self._seen = True, clock()
        self._stop = threading.Event()
        # A daemon: the end of the process does not wait for storage that hangs.
        threading.Thread(target=self._look, name="pfs-storage", daemon=True).start()

    def is_well(self) -> bool:
        """Return whether the storage was there a moment ago."""
        is_there, at = self._seen
        return is_there and self._clock() - at < _LONGEST_SECONDS

    def close(self) -> None:
        """End the looks."""
        self._stop.set()

    def _look(self) -> None:
        while not self._stop.is_set():
            try:
                is_there = self._is_there()
            except OSError:
                is_there = False  # a mount whose program has ended
            self._seen = is_there, self._clock()
            self._stop.wait(_LOOK_SECONDS)
