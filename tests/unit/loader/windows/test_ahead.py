"""A thread requests the next windows as long as data come from the disk."""

import os
import threading
from queue import SimpleQueue

import pytest

from tests.unit.loader.conftest import labels, write_images
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.loader import windows as _ahead
from trainfeed.loader.files import ShardFiles
from trainfeed.loader.order import Task
from trainfeed.loader.windows import ReadAhead

PATIENCE_S = 60


def tasks(count):
    return [Task(0, 0, lane=0, window=i, first=0, stride=1, need=i) for i in range(count)]


class Disk:
    """Says what a thread had read, and notes the windows that were asked for."""

    def __init__(self, monkeypatch, blocks_per_window):
        self.asked = SimpleQueue()
        self._num_blocks, self._blocks_per_window = 0, blocks_per_window
        monkeypatch.setattr(_ahead, "_num_blocks_read", lambda: self._num_blocks)

    def expect(self, task):
        self._num_blocks += self._blocks_per_window
        self.asked.put(task.window)

    def taken(self):
        return [self.asked.get_nowait() for _ in range(self.asked.qsize())]


def test_a_window_is_asked_for_while_earlier_ones_are_in_use(monkeypatch):
    disk = Disk(monkeypatch, blocks_per_window=8)
    with ReadAhead(iter(tasks(50)), disk.expect) as coming:
        for number, task in enumerate(coming):
            assert task.window == number
            if number + 1 < 50:
                ahead = disk.asked.get(timeout=PATIENCE_S)
                assert number < ahead <= number + _ahead._NUM_AHEAD


def test_where_nothing_comes_from_the_disk_the_thread_is_left_alone(monkeypatch):
    disk = Disk(monkeypatch, blocks_per_window=0)
    with ReadAhead(iter(tasks(1000)), disk.expect) as coming:
        next(coming)
        known = [disk.asked.get(timeout=PATIENCE_S) for _ in range(_ahead._NUM_AHEAD)]
        assert sum(1 for _ in coming) == 999
    assert known == [1, 2, 3, 4]
    assert len(disk.taken()) <= 1000 // _ahead._PROBE_EVERY + 1


def test_a_window_that_was_taken_meanwhile_is_not_asked_for_again(monkeypatch):
    disk = Disk(monkeypatch, blocks_per_window=8)
    begun, free = threading.Event(), threading.Event()

    def expect(task):
        begun.set()
        assert free.wait(PATIENCE_S)
        disk.expect(task)

    with ReadAhead(iter(tasks(20)), expect) as coming:
        next(coming)
        assert begun.wait(PATIENCE_S)
        assert sum(1 for _ in coming) == 19
        free.set()
    assert disk.taken() in ([], [1])


@pytest.mark.parametrize("error", [OSError("gone"), ValueError("damaged")])
def test_what_is_wrong_is_for_loading_to_find(error):
    def expect(_task):
        raise error

    with ReadAhead(iter(tasks(20)), expect) as coming:
        assert [task.window for task in coming] == list(range(20))


def test_the_thread_ends_with_the_pass_and_a_fork_has_none():
    with ReadAhead(iter(tasks(20)), lambda _task: None) as coming:
        next(coming)
        child = os.fork()
        if not child:
            with coming:
                os._exit(0 if len(list(coming)) == 19 and threading.active_count() == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
        next(coming)
    assert "trainfeed-read-ahead" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("options", [{}, {"num_threads": 1}, {"num_workers": 1}])
@pytest.mark.parametrize("immutable", [False, True])
def test_a_loader_asks_for_windows_before_it_loads_them(tmp_path, monkeypatch, options, immutable):
    asked, real = SimpleQueue(), ShardFiles.expect

    def expect(files, *place):
        if threading.current_thread().name == "trainfeed-read-ahead":
            asked.put(place)
        real(files, *place)

    monkeypatch.setattr(ShardFiles, "expect", expect)
    written = write_images(tmp_path, [600, 600])
    files = RecordFiles(written.paths, written.schema, immutable=immutable)
    # Some two hundred windows; workers are asked for 26 of them at once.
    with DataLoader(files, 7, shuffle=True, window_bytes=1, **options) as loader:
        iterator = iter(loader)
        next(iterator)
        assert asked.get(timeout=PATIENCE_S)
        assert len(labels(iterator)) == 1193
    assert "trainfeed-read-ahead" not in [thread.name for thread in threading.enumerate()]


def test_in_natural_order_no_thread_is_started(images, monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", None)
    with DataLoader(images, 7) as loader:
        assert len(labels(loader)) == 100
