"""Work on files, in threads: the loop of the server never waits for a disk.

A request that is cancelled, by its client or by the time limit, leaves its thread at work until the
end of the one call: a chunk reaches its offset of an unfinished file, a whole step is done or not.
Each such call may be repeated, so nothing that a cancelled request leaves needs a repair.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from trainfeed.errors import Outcome, TrainFeedError
from trainfeed.pfs.wire import status_of
from trainfeed.server import Refusal, public_text

__all__ = ["Disk", "refusal_of_files"]

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
