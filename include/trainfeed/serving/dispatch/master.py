"""The master as a server: three routes over one queue; requests share commits."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastapi import APIRouter

from trainfeed.errors import StorageError
from trainfeed.serving.dispatch.messages import Answer, Ask, PassReport, Served, Status
from trainfeed.serving.dispatch.queue import TaskList, TaskQueue
from trainfeed.serving.dispatch.state import QueueOptions
from trainfeed.serving.server import Metrics, Parts, ServerSettings, make_app, serve

if TYPE_CHECKING:
    from fastapi import FastAPI


# --- Commits of several requests at once: all that came in during a sync share the next one

_T = TypeVar("_T")
_Waiting = tuple[Callable[[], Any], "asyncio.Future[Any]"]
_Outcome = tuple[Any, Exception | None]


class GroupCommit:
    """Runs operations on a state, in a thread of its own, in shared transactions.

    Args:
        transaction: Returns a context that commits all changes of its block, or none.
        part: Returns a context within a transaction; an error undoes the changes of it alone.
    """

    def __init__(
        self,
        transaction: Callable[[], AbstractContextManager[None]],
        part: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._transaction = transaction
        self._part = part
        self._thread = ThreadPoolExecutor(1, "commit")
        self._waiting: list[_Waiting] = []
        self._runner: asyncio.Task[None] | None = None

    async def run(self, operation: Callable[[], _T]) -> _T:
        """Run an operation, and return its result once its changes are durable.

        Raises:
            StorageError: The state could not be written; nothing was changed.
            Exception: Raised by the operation; its changes were undone, those of others were not.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((operation, future))
        if self._runner is None:
            self._runner = asyncio.create_task(self._drain())
        result: _T = await future
        return result

    async def close(self) -> None:
        """Wait for the operations that have begun."""
        if self._runner is not None:
            await self._runner
        self._thread.shutdown()

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group, self._waiting = self._waiting, []
            results = await loop.run_in_executor(self._thread, self._commit, group)
            for (_, future), (value, error) in zip(group, results, strict=True):
                if not future.done():
                    future.set_result(value) if error is None else future.set_exception(error)
        self._runner = None

    def _commit(self, group: list[_Waiting]) -> list[_Outcome]:
        outcomes: list[_Outcome] = []
        try:
            with self._transaction():
                outcomes += [self._outcome(operation) for operation, _ in group]
        except Exception as error:  # noqa: BLE001 (every request of the group is told)
            # The first failure of the state tells more than the commit that failed after it.
            failures = (each for _, each in outcomes if isinstance(each, StorageError))
            return [(None, next(failures, _told(error)))] * len(group)
        return outcomes

    def _outcome(self, operation: Callable[[], Any]) -> _Outcome:
        try:
            with self._part():
                return operation(), None
        except Exception as error:  # noqa: BLE001 (the other requests of the group go on)
            return None, _told(error)


def _told(error: Exception) -> Exception:
    if not isinstance(error, sqlite3.Error):
        return error
    return StorageError(
        f"the state of the master could not be written: {error}; nothing was changed; make room on"
        " the disk, then requests succeed again"
    )


# --- The master as a server: three routes over one queue

_log: Final = logging.getLogger("trainfeed.dispatch")
_LOOK_SECONDS: Final = 1.0
# A look that takes longer waits for a commit that does not end.
_LONGEST_SECONDS: Final = 30.0
_SCOPES: Final = {"/data": "train", "/ask": "train", "/status": "read"}


@dataclass(frozen=True)
class MasterOptions:
    """The settings of a master.

    Attributes:
        state: File of its state, on a disk of its machine.
        queue: Rules of the queue.
        linger_seconds: Time that a master with a last pass answers after it has ended, so that all
            trainers learn of the end.
    """

    state: Path
    queue: QueueOptions = field(default_factory=QueueOptions)
    linger_seconds: float = 10.0


def serve_master(
    tasks: TaskList,
    options: MasterOptions,
    settings: ServerSettings,
    *,
    on_ready: Callable[[str], None] = lambda _: None,
) -> tuple[PassReport, ...]:
    """Serve tasks until SIGTERM, or until the last pass has ended; return the ended passes.

    ``on_ready`` is called with the address once the master answers.

    Raises:
        ConflictError: Another master has the state file, or the file is of other data.
        ConfigError: A setting of the server is not usable.
    """
    queue = TaskQueue(options.state, tasks, options.queue, time.monotonic)
    try:
        watch = _Watch(queue, options.linger_seconds)
        app = make_master(queue, settings, watch)
        serve(app, settings, is_over=watch.is_over, on_ready=on_ready)
        with queue.transaction():
            return queue.status().ended
    finally:
        queue.close()


def make_master(queue: TaskQueue, settings: ServerSettings, watch: _Watch) -> FastAPI:
    """Return the app of a master over a queue, which stays open."""
    commits = GroupCommit(queue.transaction, queue.part)

    parts = Parts()
    parts.add("state", watch.is_well)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        looking = parts.start("watch", watch.look(commits))
        yield
        looking.cancel()
        await commits.close()

    return make_app(
        _routes(queue, commits),
        settings,
        scopes=_SCOPES,
        metrics=_metrics(watch),
        lifespan=lifespan,
        parts=parts,
    )


def _routes(queue: TaskQueue, commits: GroupCommit) -> APIRouter:
    router = APIRouter()

    @router.get("/data")
    async def data() -> Served:
        return await commits.run(queue.served)

    @router.get("/status")
    async def status() -> Status:
        return await commits.run(queue.status)

    @router.post("/ask")
    async def ask(asked: Ask) -> Answer:
        return await commits.run(lambda: queue.answer(asked))

    return router


def _metrics(watch: _Watch) -> Metrics:
    metrics = Metrics()
    for name, about in (
        ("todo", "Tasks of the current pass that nobody has."),
        ("pending", "Tasks that are lent."),
    ):
        metrics.gauge(f"dispatch_{name}", about, lambda name=name: getattr(watch.seen, name))  # type: ignore[misc]
    for name, about in (
        ("done", "Finished tasks of the current pass."),
        ("failed", "Tasks of the current pass that failed too often."),
        ("timeouts", "Leases of the current pass that ran out."),
        ("ignored", "Reports of the current pass that came too late or twice."),
    ):
        metrics.gauge(
            f"dispatch_{name}",
            about,
            lambda name=name: getattr(watch.seen.current, name),  # type: ignore[misc]
        )
    return metrics


class _Watch:
    """Looks at the queue every second: leases run out although nobody asks, and passes end."""

    def __init__(self, queue: TaskQueue, linger_seconds: float) -> None:
        self._queue = queue
        self._linger_seconds = linger_seconds
        self._over_since: float | None = None
        self._is_failed = False
        self._seen_at = time.monotonic()
        with queue.transaction():
            self.seen = queue.status()

    async def look(self, commits: GroupCommit) -> None:
        while True:
            try:
                self.seen = await commits.run(self._queue.status)
                self._is_failed, self._seen_at = False, time.monotonic()
            except Exception:  # noqa: BLE001 (the next look may succeed; without it no pass ends)
                self._is_failed = True
                _log.exception("the master cannot look at its state; it tries again")
            if self._over_since is None and self.seen.is_over:
                self._over_since = time.monotonic()
            await asyncio.sleep(_LOOK_SECONDS)

    def is_well(self) -> bool:
        """Return whether the state could be looked at a moment ago; a commit that hangs is a no."""
        return not self._is_failed and time.monotonic() - self._seen_at < _LONGEST_SECONDS

    def is_over(self) -> bool:
        since = self._over_since
        return since is not None and time.monotonic() >= since + self._linger_seconds
