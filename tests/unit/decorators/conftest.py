"""Every test here ends with the threads, processes and descriptors it began with."""

import gc
import multiprocessing
import threading
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def nothing_left():
    fds, threads = descriptors(), set(threading.enumerate())
    yield
    if descriptors() != fds:
        # Something a test has let go may wait in a cycle; collecting always takes too long.
        gc.collect()
    for thread in set(threading.enumerate()) - threads:
        thread.join(30)
    assert set(threading.enumerate()) <= threads
    assert not multiprocessing.active_children()
    # What an earlier test had let go may be collected meanwhile.
    assert descriptors().items() <= fds.items()


def descriptors():
    found = {}
    for path in Path("/proc/self/fd").iterdir():
        try:
            found[path.name] = path.readlink()
        except FileNotFoundError:
            continue
    return found
