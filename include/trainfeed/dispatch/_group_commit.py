"""Commits of several requests at once: all that came in during a sync share the next one.

A sync takes milliseconds, and is the same for one request and for a hundred. No request is answered
before the commit that has its changes. An error of one request undoes the changes of that request
alone.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from trainfeed.errors import StorageError

__all__ = ["GroupCommit"]

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
