"""The master as a server: three routes over one queue."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter

from trainfeed.dispatch._group_commit import GroupCommit
from trainfeed.dispatch._queue import TaskQueue
from trainfeed.dispatch._queue_state import QueueOptions
from trainfeed.dispatch._task_list import TaskList
from trainfeed.dispatch._wire import Answer, Ask, PassReport, Served, Status
from trainfeed.server import Metrics, Parts, ServerSettings, make_app, serve

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["MasterOptions", "serve_master"]

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
