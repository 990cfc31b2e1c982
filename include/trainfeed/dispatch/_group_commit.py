"""Commits of several requests at once: all that came in during a sync share the next one.

A sync takes milliseconds, and is the same for one request and for a hundred. No request is answered
before the commit that has its changes.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from trainfeed.errors import StorageError, TrainFeedError

__all__ = ["GroupCommit"]

_T = TypeVar("_T")
_Waiting = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class GroupCommit:
    """Runs operations on a state, in a thread of its own, in shared transactions.

    Args:
        transaction: Returns a context that commits all changes of its block, or none.
    """

    def __init__(self, transaction: Callable[[], AbstractContextManager[None]]) -> None:
        self._transaction = transaction
        self._thread = ThreadPoolExecutor(1, "commit")
        self._waiting: list[_Waiting] = []
        self._runner: asyncio.Task[None] | None = None

    async def run(self, operation: Callable[[], _T]) -> _T:
        """Run an operation, and return its result once its changes are durable.

        Raises:
            TrainFeedError: Raised by the operation, before it changed anything.
            StorageError: The state could not be written; nothing was changed.
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

    def _commit(self, group: list[_Waiting]) -> list[tuple[Any, Exception | None]]:
        try:
            with self._transaction():
                return [_outcome(operation) for operation, _ in group]
        except sqlite3.Error as error:
            failure = StorageError(
                f"the state of the master could not be written: {error}; nothing was changed; make"
                " room on the disk, then requests succeed again"
            )
        except Exception as error:  # noqa: BLE001 (every request of the group is told)
            return [(None, error)] * len(group)
        return [(None, failure)] * len(group)


def _outcome(operation: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return operation(), None
    except TrainFeedError as error:
        return None, error
