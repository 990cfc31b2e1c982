"""Threads that load ahead: a sample that never comes costs its timeout, not the program."""

import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.unit.loader.conftest import labels
from tests.unit.loader.datasets import Squares, Stuck
from trainfeed.errors import LoaderError
from trainfeed.loader import DataLoader
from trainfeed.loader import feeds as _feeds

ROOT = Path(__file__).parents[4]


@pytest.fixture
def stuck(monkeypatch):
    """100 samples, of which the last 36 do not come before the test has ended."""
    monkeypatch.setattr(_feeds, "_JOIN_S", 0.1)
    before = set(threading.enumerate())
    dataset = Stuck(100, 64)
    yield dataset
    dataset.go_on.set()
    for thread in set(threading.enumerate()) - before:
        thread.join()


def test_a_read_that_hangs_is_named_after_the_timeout(stuck, monkeypatch):
    class LateFuture(Future):
        """The time for a window runs when the only thread has done those before the bad one."""

        def result(self, timeout):
            stuck.reached.wait()
            return super().result(timeout)

    monkeypatch.setattr(_feeds, "Future", LateFuture)
    with DataLoader(stuck, 8, num_threads=1, prefetch=3, timeout_s=0.2) as loader:
        found = []
        with pytest.raises(LoaderError, match=r"window 2 of lane 0 .* within 0\.2 s"):
            found.extend(batch["label"][0] for batch in loader)
        assert found == list(range(0, 64, 8))
        assert loader.state_dict()["position"] == 64


def test_an_iterator_is_left_although_a_read_hangs(stuck):
    with DataLoader(stuck, 8, num_threads=1, prefetch=3) as loader:
        for _ in loader:
            stuck.reached.wait()
            break
    assert not stuck.go_on.is_set()


class Failing(Stuck):
    """Fails in its first window when another thread hangs in the second one."""

    def __getitem__(self, i):
        if i == 3:
            self.reached.wait()
            raise ZeroDivisionError
        return super().__getitem__(i)


def test_an_error_does_not_wait_long_for_a_read_that_hangs(monkeypatch):
    before, waits = set(threading.enumerate()), []
    dataset = Failing(100, 32)
    with monkeypatch.context() as patch, DataLoader(dataset, 8, num_threads=2) as loader:
        patch.setattr(threading.Thread, "join", lambda _, timeout_s=None: waits.append(timeout_s))
        with pytest.raises(ZeroDivisionError):
            list(loader)
    dataset.go_on.set()
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert waits
    assert max(waits) < 1


def test_threads_end_with_their_pass():
    before = set(threading.enumerate())
    with DataLoader(Squares(400), 8, num_threads=2) as loader:
        batches = iter(loader)
        next(batches)
        assert len(set(threading.enumerate()) - before) == 2
        batches.close()
        assert set(threading.enumerate()) == before
        assert labels(loader) == list(range(400))
        assert set(threading.enumerate()) == before


def test_a_program_ends_although_a_read_hangs():
    code = f"""
import sys, threading
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "include")!r}]
from tests.unit.loader.datasets import Stuck
from trainfeed.loader import DataLoader
dataset = Stuck(100, 64)
batches = iter(DataLoader(dataset, 8, num_threads=1, prefetch=3))
print(next(batches)["label"][0])
dataset.reached.wait()
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
