"""What users of the file server may take, each and all together: bytes, memory, descriptors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from trainfeed.errors import ConfigError
from trainfeed.serving.server import Portions, Rates, Refusal

# A longer wait is left to the client, whose request does not take a place meanwhile.
_LONGEST_WAIT: Final = 2.0


@dataclass(frozen=True)
class FileLimits:
    """Bounds of what users take from a file server; all are above 0.

    Attributes:
        bytes_per_second: Bytes of files that one user sends and asks for per second; a read counts
            as many as it names, also behind the end of a file.
        burst_bytes: Bytes that one user can move at once before the rate holds.
        uploads: Unfinished uploads of one user that are open at once; at most half of
            ``all_uploads``, as one user gets no more.
        all_uploads: Unfinished uploads of all users that are open at once.
        upload_idle_seconds: Time after which an upload without a request is closed; its unfinished
            file stays for the next try.
        buffered_bytes: Bytes of bodies in memory at once, of all users; further bodies wait.
        small_descriptors: Descriptors of small files and their folders that are open at once, of
            all users; further requests wait. Connections and uploads have descriptors as well.

    A single body, or a single request, gets what it needs of an empty whole, also above the bound.
    """

    bytes_per_second: float = float(1 << 30)
    burst_bytes: int = 256 << 20
    uploads: int = 64
    all_uploads: int = 256
    upload_idle_seconds: float = 600.0
    buffered_bytes: int = 64 << 20
    small_descriptors: int = 600

    def __post_init__(self) -> None:
        for each in fields(self):
            if not (value := getattr(self, each.name)) > 0:
                raise ConfigError(f"expected the limit {each.name} to be above 0, got {value!r}")
        if 2 * self.uploads > self.all_uploads:
            raise ConfigError(
                f"expected at most {self.all_uploads // 2} uploads of one user, half of"
                f" {self.all_uploads}, got {self.uploads}"
            )


class Shares:
    """Rates of users; memory and descriptors of all together. For one loop.

    Args:
        limits: The bounds.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, limits: FileLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._bytes_per_second = limits.bytes_per_second
        self._rates = Rates(limits.bytes_per_second, limits.burst_bytes, clock)
        self._memory = _Pool(limits.buffered_bytes)
        self._descriptors = _Pool(limits.small_descriptors)

    def memory(self, user: str, num_bytes: int) -> AbstractAsyncContextManager[None]:
        """Take memory for a body for the time of the block; wait until enough is free."""
        return self._memory.take(user, num_bytes)

    def descriptors(self, user: str, count: int) -> AbstractAsyncContextManager[None]:
        """Take descriptors of small files for the time of the block; wait until enough are free."""
        return self._descriptors.take(user, count)

    async def spend(self, user: str, num_bytes: int) -> None:
        """Take bytes of a user's rate; wait a short time if the user is above the rate.

        Raises:
            Refusal: The wait would be a long one; nothing was taken.
        """
        wait = self._rates.debt_seconds(user)
        if wait > _LONGEST_WAIT:
            raise _too_many(f"{self._bytes_per_second:.0f} bytes per second", wait)
        self._rates.spend(user, num_bytes)
        if wait > 0:
            await asyncio.sleep(wait)


class _Waiter(NamedTuple):
    """A request that waits.

    Attributes:
        user: Its user.
        needed: How many it needs.
        granted: Done when it has them.
    """

    user: str
    needed: int
    granted: asyncio.Future[None]


class _Pool:
    """A number of equal things, such as bytes of memory, that requests wait for; see ``Portions``.

    Args:
        limit: How many there are.
    """

    def __init__(self, limit: int) -> None:
        self._portions = Portions(limit)
        self._waiting: list[_Waiter] = []

    @asynccontextmanager
    async def take(self, user: str, count: int) -> AsyncIterator[None]:
        """Take some for the time of the block; wait until enough are free."""
        waiter = _Waiter(user, count, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._grant()
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.cancelled():
                self._waiting.remove(waiter)
                self._grant()
            else:
                self._give(waiter)
            raise
        try:
            yield
        finally:
            self._give(waiter)

    def _give(self, waiter: _Waiter) -> None:
        self._portions.give(waiter.user, waiter.needed)
        self._grant()

    def _grant(self) -> None:
        """Give to those who wait, in the order in which they came.

        Nobody overtakes a request of the same user, or one for which all users leave too little:
        small requests would keep a large one waiting for ever. A user above the own share keeps
        nobody else waiting.
        """
        held: set[str] = set()
        for waiter in list(self._waiting):
            user, needed, granted = waiter
            if granted.cancelled() or user in held:
                continue
            if self._portions.take(user, needed):
                self._waiting.remove(waiter)
                granted.set_result(None)
            elif self._portions.num_taken + needed > self._portions.limit:
                break
            else:
                held.add(user)


def _too_many(expected: str, wait: float) -> Refusal:
    return Refusal(
        429,
        "TooManyRequests",
        expected=f"{expected} from one user",
        got="more",
        remedy="wait as Retry-After says; nothing of this request was used",
        retry_after=wait,
    )
