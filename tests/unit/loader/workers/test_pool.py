"""The workers of a loader over its life: reused, abandoned, overloaded, killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.unit.loader.conftest import children, labels
from tests.unit.loader.datasets import Offset, Slow, Squares
from trainfeed import mix
from trainfeed.errors import LoaderError, WorkerDiedError
from trainfeed.loader import DataLoader
from trainfeed.loader import worker_pool as _workers
from trainfeed.loader.columns import Dense
from trainfeed.loader.worker_messages import SlotMemory, pack
from trainfeed.loader.worker_pool import SlotLedger

ROOT = Path(__file__).parents[4]
WINDOWS = (32 << 20, 64 << 20)


@pytest.mark.parametrize("windows", [WINDOWS, WINDOWS[::-1]])
def test_workers_of_an_older_iterator_do_not_serve_a_restored_state(windows):
    def load(window_bytes, **options):
        return DataLoader(Squares(2000), 100, shuffle=True, window_bytes=window_bytes, **options)

    with load(windows[0]) as other:
        state, expected = other.state_dict(), labels(other)
    with load(windows[1], num_workers=1) as loader:
        older = iter(loader)
        next(older)
        loader.load_state_dict(state)
        for _ in older:
            pass
        assert labels(loader) == expected


def test_an_iterator_takes_the_order_that_is_due_with_its_first_batch():
    with DataLoader(Squares(300), 10, shuffle=True, window_bytes=32 << 20) as other:
        state, expected = other.state_dict(), labels(other)
    with DataLoader(Squares(300), 10, shuffle=True) as loader:
        waiting = iter(loader)
        loader.load_state_dict(state)
        assert labels(waiting) == expected


def test_more_windows_ahead_than_a_socket_holds_do_not_block():
    with DataLoader(Squares(100_000), 8, num_workers=1, prefetch=1000, timeout_s=30) as loader:
        assert next(iter(loader))["label"].tolist() == list(range(8))
    sets = [(Offset(2000, 10_000 * i), 1) for i in range(12)]
    with DataLoader(mix(sets), 8, shuffle=True, num_workers=1, timeout_s=30) as loader:
        found = labels([next(iter(loader))])
    assert len({label // 10_000 for label in found}) == 8


@pytest.fixture
def looks(monkeypatch):
    """The waits for answers in which none came."""
    found, wait = [], _workers.next_message

    def counted(workers, wait_s, **needed):
        got = wait(workers, wait_s, **needed)
        found.extend([] if got else [wait_s])
        return got

    monkeypatch.setattr(_workers, "next_message", counted)
    return found


def test_a_dead_worker_of_a_mixture_is_noticed_once(looks, monkeypatch):
    """LD-01: at once, not when it is looked after, and not once per set and lane."""
    monkeypatch.setattr(_workers, "_LOOK_S", 600.0)
    sets = [(Offset(5000, 10_000 * i), 1) for i in range(3)]
    before = children()
    with DataLoader(mix(sets), 1024, shuffle=True, num_workers=1) as loader:
        batches = iter(loader)
        next(batches)
        looks.clear()
        (worker,) = children() - before
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(WorkerDiedError, match="SIGKILL"):
            list(batches)
    # It takes a few to see that it is gone; a window of every lane of every set was due.
    assert len(looks) < 10


def test_a_silent_worker_of_a_mixture_is_waited_for_once(looks, monkeypatch):
    monkeypatch.setattr(_workers, "_LOOK_S", 0.05)
    sets = [(Slow(500), 1), (Slow(600), 1)]
    with (
        DataLoader(mix(sets), 64, shuffle=True, num_workers=1, timeout_s=0.2) as loader,
        pytest.raises(WorkerDiedError, match=r"within 0.2 s"),
    ):
        next(iter(loader))
    # A look in vain takes its 50 ms at least.
    assert len(looks) <= 6


UNGUARDED = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "include")!r}]
from tests.unit.loader.datasets import Squares
from trainfeed.loader import DataLoader

class Own(Squares):
    pass

list(DataLoader(Own(20), 8, num_workers=1))
"""


def test_a_program_whose_class_needs_a_guard_is_told_so(tmp_path):
    (tmp_path / "program.py").write_text(UNGUARDED)
    command = [sys.executable, tmp_path / "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if line.startswith("trainfeed.errors.")]
    assert set(errors) == {errors[0]}
    assert errors[0].startswith("trainfeed.errors.ConfigError: ")
    assert 'if __name__ == "__main__":' in errors[0]


def test_workers_that_died_while_they_were_idle_are_started_again(images):
    with DataLoader(images, 4, num_workers=2) as loader:
        expected = labels(loader)
        pool = loader._runner._feeding._pool
        died, *_ = [worker.process for worker in pool._workers]
        died.kill()
        died.wait()
        loader.set_epoch(0)
        assert labels(loader) == expected
        assert loader._runner._feeding._pool is not pool


def test_a_slot_is_lent_until_the_last_array_on_it_is_gone_and_then_free():
    ledger, memory = SlotLedger(2), np.arange(8, dtype=np.uint8)
    first, second = ledger.take(), ledger.take()
    view = ledger.lend(first, memory)[2:4]
    other = ledger.lend(second, memory)
    assert (view.tolist(), ledger.num_lent, ledger.take()) == ([2, 3], 2, None)
    del view
    assert (ledger.num_lent, ledger.take(), ledger.take()) == (1, first, None)
    # The first slot is lent again before the second one comes back.
    again = ledger.lend(first, memory)
    del other
    assert (ledger.num_lent, ledger.take(), ledger.take()) == (1, second, None)
    del again
    assert ledger.num_lent == 0


def test_an_answer_that_nobody_was_asked_for_is_an_error_with_a_name():
    with DataLoader(Squares(20), 4, num_workers=1) as loader:
        list(loader)
        with pytest.raises(LoaderError, match="expected question 99 to be with a worker"):
            loader._runner._feeding._pool.wait_for(99, 1.0)


class Unpicklable:
    def __reduce__(self):
        raise MemoryError("no memory for a copy")


def test_want_of_memory_in_a_worker_is_not_said_to_be_a_fault_of_the_data_set():
    values = np.empty(1, object)
    values[0] = Unpicklable()
    with pytest.raises(MemoryError, match="no memory for a copy"):
        pack({"x": Dense(values)}, SlotMemory(np.empty(4096, np.uint8)))


def test_a_window_that_does_not_fit_is_not_copied_before_it_is_sent():
    memory = SlotMemory(np.empty(4096, np.uint8))
    memory.reserve(1 << 20)
    memory.array = None
    assert pack({"x": Dense(np.zeros(1 << 17))}, memory) is None
