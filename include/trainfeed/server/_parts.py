"""Parts of a server that must live: tasks, threads, storage. A dead one fails ``/healthz``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

__all__ = ["Parts"]

_log: Final = logging.getLogger("trainfeed.server")


class Parts:
    """The parts of one server by name. Names are shown to everybody. For one loop."""

    def __init__(self) -> None:
        self._checks: dict[str, Callable[[], bool]] = {}
        self._failed: set[str] = set()

    def add(self, name: str, is_well: Callable[[], bool]) -> None:
        """Add a part; ``is_well`` answers at once, and an error of it is a no."""
        self._checks[name] = is_well

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that ends with the server; its end before that is a dead part."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_tell_end)
        self.add(name, lambda: not task.done())
        return task

    def failed(self) -> tuple[str, ...]:
        """Return the names of the parts that are dead or do not answer; the log gets changes."""
        found = {name for name, is_well in self._checks.items() if not _holds(name, is_well)}
        for name in sorted(found ^ self._failed):
            if name in found:
                _log.error("the part %r of the server does not work; /healthz says so", name)
            else:
                _log.warning("the part %r of the server works again", name)
        self._failed = found
        return tuple(sorted(found))


def _holds(name: str, is_well: Callable[[], bool]) -> bool:
    try:
        return is_well()
    except Exception:  # noqa: BLE001 (a part that cannot say that it is well is not)
        _log.debug("the part %r cannot say how it is", name, exc_info=True)
        return False


def _tell_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("the part %r of the server ended", task.get_name(), exc_info=error)
