"""Helpers of tests of forks and locks."""

import os
import select
import signal
import threading
from contextlib import contextmanager

WAIT_S = 60


def in_a_fork(act):
    """Do something in a fork of this process; return its exit status, or how it was killed."""
    pid = os.fork()
    if not pid:
        try:
            act()
        except BaseException:  # noqa: BLE001 (it must not return into the tests)
            os._exit(1)
        os._exit(0)
    poll, pidfd = select.poll(), os.pidfd_open(pid)
    poll.register(pidfd, select.POLLIN)
    if not poll.poll(WAIT_S * 1000):
        os.kill(pid, signal.SIGKILL)
    os.close(pidfd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextmanager
def held_elsewhere(lock):
    """Let another thread hold a lock."""
    held, let_go = threading.Event(), threading.Event()

    def run():
        with lock:
            held.set()
            let_go.wait(WAIT_S)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert held.wait(WAIT_S)
        yield
    finally:
        let_go.set()
        thread.join()
