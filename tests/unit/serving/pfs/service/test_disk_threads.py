"""Threads of the file server: one user does not take all of them."""

import asyncio
import threading
from contextlib import suppress

from trainfeed.serving.pfs.areas import _THREADS, Disk


def test_calls_of_one_user_leave_half_of_the_threads_to_others():
    disk, freed, at_work = Disk(), threading.Event(), threading.Semaphore(0)

    def long():
        at_work.release()
        assert freed.wait(60)

    async def asked():
        own = [asyncio.create_task(disk.run("alice", long)) for _ in range(2 * _THREADS)]
        for _ in range(_THREADS // 2):
            await asyncio.to_thread(at_work.acquire, timeout=60)
        # Requests that are cancelled leave their threads at work.
        for task in own[: _THREADS // 2]:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await own[0]
        others = [disk.run(f"user-{number}", int) for number in range(_THREADS)]
        assert await asyncio.wait_for(asyncio.gather(*others), 60) == [0] * _THREADS
        begun = at_work.acquire(blocking=False)
        freed.set()
        await asyncio.gather(*own, return_exceptions=True)
        return begun

    assert not asyncio.run(asked())
    disk.close()
