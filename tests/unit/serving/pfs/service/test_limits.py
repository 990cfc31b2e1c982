"""Memory and descriptors of the file server: who waits gets them in the order of arrival."""

import asyncio

import pytest

from trainfeed.errors import ConfigError
from trainfeed.serving.pfs.limits import FileLimits, Shares


async def settled():
    """Let all other tasks go on as far as they get."""
    for _ in range(5):
        await asyncio.sleep(0)


class Requests:
    """Requests for memory, each of them a task that keeps what it got until it is ended."""

    def __init__(self, limit):
        self.shares = Shares(FileLimits(buffered_bytes=limit))
        self.got = []
        self._tasks = {}
        self._ends = {}

    async def begin(self, name, user, count):
        self._ends[name] = asyncio.Event()

        async def work():
            async with self.shares.memory(user, count):
                self.got.append(name)
                await self._ends[name].wait()

        self._tasks[name] = asyncio.create_task(work())
        await settled()

    async def end(self, name):
        self._ends[name].set()
        await self._tasks[name]
        await settled()

    async def cancel(self, name):
        self._tasks[name].cancel()
        await settled()


def test_small_requests_do_not_keep_a_large_one_of_another_user_waiting():
    async def run():
        requests = Requests(10)
        await requests.begin("a", "ann", 5)
        await requests.begin("large", "bob", 8)
        await requests.begin("b", "cleo", 1)
        assert requests.got == ["a"]
        await requests.end("a")
        assert requests.got == ["a", "large", "b"]

    asyncio.run(run())


def test_small_requests_do_not_keep_a_large_one_of_the_same_user_waiting():
    async def run():
        requests = Requests(20)
        for name in "ab":
            await requests.begin(name, "ann", 3)
        await requests.begin("large", "ann", 9)
        await requests.begin("small", "ann", 1)
        assert requests.got == ["a", "b"]
        await requests.end("a")
        assert requests.got == ["a", "b", "large"]

    asyncio.run(run())


def test_a_user_above_the_own_share_keeps_nobody_else_waiting():
    async def run():
        requests = Requests(10)
        await requests.begin("a", "ann", 5)
        await requests.begin("more", "ann", 4)
        await requests.begin("b", "bob", 4)
        assert requests.got == ["a", "b"]
        await requests.end("a")
        await requests.end("b")
        assert requests.got == ["a", "b", "more"]

    asyncio.run(run())


@pytest.mark.parametrize("is_granted", [False, True])
def test_a_request_that_is_cancelled_leaves_all_to_the_next(is_granted):
    async def run():
        requests = Requests(10)
        await requests.begin("a", "ann", 10)
        await requests.begin("b", "bob", 10)
        await requests.begin("c", "cleo", 10)
        if is_granted:
            # Granted in the same turn of the loop in which it is cancelled.
            requests._ends["a"].set()
            await asyncio.sleep(0)
        await requests.cancel("b")
        if not is_granted:
            await requests.end("a")
        assert requests.got[-1] == "c"

    asyncio.run(run())


def test_a_request_above_the_bound_gets_the_empty_whole():
    async def run():
        requests = Requests(10)
        await requests.begin("a", "ann", 1)
        await requests.begin("large", "bob", 100)
        assert requests.got == ["a"]
        await requests.end("a")
        assert requests.got == ["a", "large"]

    asyncio.run(run())


def test_more_uploads_of_one_user_than_half_of_all_are_refused():
    with pytest.raises(ConfigError, match="128"):
        FileLimits(uploads=129)
    assert FileLimits(uploads=128).uploads == 128
