"""Two at the same time: threads, a fork beside threads, a garbage collection in the middle."""

import threading
from pathlib import Path

import numpy as np
import pytest

from tests.unit.forks import WAIT_S, held_elsewhere, in_a_fork
from tests.unit.loader.conftest import num_fds, num_fds_before
from tests.unit.loader.datasets import Squares
from trainfeed.loader import DataLoader
from trainfeed.loader import feeds as _feeds
from trainfeed.loader import files as _files
from trainfeed.loader.chunks import KeptChunks
from trainfeed.loader.feeds import ThreadFeed, ThreadPlan
from trainfeed.loader.files import ShardFiles
from trainfeed.loader.memory import LentPool
from trainfeed.loader.order import Span
from trainfeed.loader.runner import Feeding
from trainfeed.loader.state import LoaderStats
from trainfeed.loader.windows import Loaded


@pytest.fixture
def files(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    found = ShardFiles([str(tmp_path / "file")])
    yield found
    found.close()


def read(files):
    out = bytearray(3)
    files.read(0, 0, [memoryview(out)])
    return out


def in_a_thread(act):
    """Do something that may wait for ever in another thread; return whether it has ended."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    return not thread.is_alive()


class Interrupted(int):
    """A number in whose addition another thread gets its turn."""

    def __new__(cls, value, act):
        number = super().__new__(cls, value)
        number.thread = threading.Thread(target=act)
        return number

    def __add__(self, other):
        if self.thread.ident is None:
            self.thread.start()
            self.thread.join(0.05)  # it comes in between, or waits for its turn
        return int(self) + other


def test_no_retry_is_left_uncounted(files, monkeypatch):
    monkeypatch.setattr(_files, "_FIRST_WAIT_S", 0.001)
    real, failed = files._try_read, set()

    def try_read(*args):
        """Fail once in each thread."""
        if threading.current_thread() in failed:
            return real(*args)
        failed.add(threading.current_thread())
        return OSError(5, "once")

    monkeypatch.setattr(files, "_try_read", try_read)
    number = files.num_retries = Interrupted(0, lambda: read(files))
    assert read(files) == b"abc"
    number.thread.join()
    assert files.num_retries == 2


def test_files_may_be_closed_while_one_is_opened(files, monkeypatch):
    """A garbage collection in there may end a user's generator, and that its loader."""
    real = _files.plain_fd

    def plain_fd(path, **how):
        files.close()
        return real(path, **how)

    monkeypatch.setattr(_files, "plain_fd", plain_fd)
    files = ShardFiles(files.paths)
    found = []
    assert in_a_thread(lambda: found.extend([read(files), bytes(files.view(0, 1, 2))]))
    assert found == [b"abc", b"bc"]


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """Files of which the first is opened when the event is set, and the paths that were opened."""
    paths = [str(tmp_path / name) for name in "ab"]
    for path in paths:
        Path(path).write_bytes(b"abc")
    real, opened, go_on = _files.plain_fd, [], threading.Event()

    def plain_fd(path, **how):
        opened.append(path)
        if path == paths[0]:
            go_on.wait()
        return real(path, **how)

    monkeypatch.setattr(_files, "plain_fd", plain_fd)
    files = ShardFiles(paths)
    threads = [threading.Thread(target=read, args=[files], daemon=True) for _ in range(2)]

    def finish():
        go_on.set()
        for thread in threads:
            thread.join()

    for thread in threads:
        thread.start()
    while not opened:
        threads[0].join(0.001)
    yield files, opened, finish
    finish()
    files.close()


def test_a_file_that_takes_long_to_open_stops_no_other_and_no_close(slow):
    files, opened, _ = slow
    assert in_a_thread(lambda: files.read(1, 0, [memoryview(bytearray(3))]))
    assert in_a_thread(files.close)
    assert opened == files.paths


def test_a_file_that_two_threads_want_is_opened_once(slow):
    files, opened, finish = slow
    finish()
    assert opened == files.paths[:1]


def test_a_file_that_was_being_opened_at_the_close_is_closed_too(slow):
    files, _, finish = slow
    before = num_fds_before()
    assert in_a_thread(files.close)
    finish()
    assert num_fds() == before


def test_figures_may_be_asked_for_while_they_are_counted():
    stats = LoaderStats()

    class Asking:
        def __radd__(self, other):
            stats.report()
            return other + 1

    assert in_a_thread(lambda: stats.count_batches(Asking(), 0, 0))
    assert stats.report().batches == 1


def test_a_fork_reads_on_although_another_thread_held_the_lock(files):
    assert read(files) == b"abc"
    with held_elsewhere(files._lock):
        assert in_a_fork(lambda: read(files)) == 0


@pytest.mark.parametrize("make", [LoaderStats, KeptChunks])
def test_a_fork_finds_locks_free(make):
    shared = make()
    with held_elsewhere(shared._lock):
        assert in_a_fork(shared._lock.acquire) == 0


def test_a_chunk_that_two_threads_decoded_at_once_is_dropped_with_its_last_sample():
    kept, framing = KeptChunks(), np.zeros(100, np.uint8)
    kept.keep(Span(3, 0, 40), framing, 100)
    kept.keep(Span(3, 40, 90), framing.copy(), 100)
    assert kept.find(Span(3, 90, 100)) is framing
    assert kept.find(Span(3, 0, 1)) is None


def started_feed(load, num_threads):
    tasks = iter(range(100))
    plan = ThreadPlan(num_threads, 10, 60.0)
    return ThreadFeed(tasks, load, LentPool(4), LoaderStats(), plan=plan)


def test_a_fork_can_leave_a_pass_whose_thread_held_a_lock():
    feed = started_feed(lambda *_: Loaded({}, 1, None), 1)
    feed.next()
    _, future = feed._running[-1]
    with held_elsewhere(future._condition):
        assert in_a_fork(feed.close) == 0
    feed.close()


def test_a_pass_that_ends_in_its_own_thread_does_not_wait_for_the_others():
    """They may wait for what that thread holds while it collects garbage."""
    lock, asked, waiting, found = threading.Lock(), threading.Event(), threading.Event(), []

    def load(task, _):
        if task == 1:
            with lock:
                assert asked.wait(WAIT_S)
                assert waiting.wait(WAIT_S)
                found.extend(feed._threads)
                feed.close()
        elif task == 2:
            waiting.set()
            with lock:
                pass
        return Loaded({}, 1, None)

    feed = started_feed(load, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_feeds, "_JOIN_S", 2 * WAIT_S)
        feed.next()
        _, future = feed._running[0]
        asked.set()
        assert future.result(WAIT_S).num_samples == 1
    for thread in found:
        thread.join()
    assert len(found) == 2


class Swapped(Feeding):
    """A feeding in which another thread gets its turn when one looks for idle workers."""

    act = None

    @property
    def _pool(self):
        act, self.act = self.act, None
        found = self.__dict__["_pool"]
        if act is not None:
            act()
        return found

    @_pool.setter
    def _pool(self, pool):
        self.__dict__["_pool"] = pool


class IdlePool:
    def close(self):
        pass


def test_two_iterators_that_start_at_once_get_workers_of_their_own():
    with DataLoader(Squares(20), 8, num_workers=1) as loader:
        runner = loader._runner._feeding
        runner.__class__ = Swapped
        runner._pool, found = IdlePool(), []
        thread = threading.Thread(target=lambda: found.append(runner._take_pool()))

        def act():
            thread.start()
            thread.join(0.05)  # it comes in between, or waits for its turn

        runner.act = act
        found.append(runner._take_pool())
        thread.join()
    assert found.count(None) == 1
