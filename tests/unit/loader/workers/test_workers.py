"""Worker processes: samples, errors, and nothing that stays behind."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.unit.loader.conftest import (
    children,
    image_columns,
    labels,
    note,
    num_fds,
    num_fds_before,
    write_images,
)
from tests.unit.loader.datasets import Failing, Growing, Rereading, Slow, Squares
from tests.unit.processes import is_running
from trainfeed import mix
from trainfeed.core import faults
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    LoaderError,
    MemoryLimitError,
    WorkerDiedError,
)
from trainfeed.loader import DataLoader
from trainfeed.loader import record_files as _record_files
from trainfeed.loader import worker_pool as _workers
from trainfeed.loader.worker_messages import LoaderJob
from trainfeed.loader.worker_pool import WorkerPool
from trainfeed.recordio import Codec

# A safety net: machines are slow.
SOON_S = 60.0


@pytest.fixture
def never_looking(monkeypatch):
    """A wait for a worker does not poll: the kernel reports the end of a worker at once."""
    monkeypatch.setattr(_workers, "_LOOK_S", 600.0)


def read_until_error(loader):
    """Return what came before the error, and the error."""
    found = []
    try:
        for batch in loader:
            found += labels([batch])
    except Exception as error:  # noqa: BLE001 - the callers look closely
        return found, error
    pytest.fail("no error")


@pytest.mark.usefixtures("never_looking")
@pytest.mark.parametrize("shuffle", [False, True])
def test_an_exception_comes_after_all_good_batches_and_says_where(shuffle):
    """LD-01."""
    good = _order_of(shuffle)
    expected = good[: good.index(150) // 8 * 8]
    for options in ({"num_workers": 2}, {"num_threads": 2}, {}):
        with DataLoader(Failing("raise"), 8, shuffle=shuffle, **options) as loader:
            found, error = read_until_error(loader)
            assert found == expected
            assert loader.state_dict()["position"] == len(expected)
        assert isinstance(error, ValueError)
        assert str(error) == "sample is bad"
        notes = "".join(error.__notes__)
        assert "sample 150 of Failing" in notes
        assert ("in loader worker" in notes) == ("num_workers" in options)
    assert "_raise(ValueError" in notes or options == {}


def _order_of(shuffle):
    with DataLoader(Failing("raise", at=-1), 8, shuffle=shuffle) as loader:
        return labels(loader)


def test_an_exception_that_cannot_travel_is_described():
    with DataLoader(Failing("odd"), 8, num_workers=1) as loader:
        _, error = read_until_error(loader)
    assert isinstance(error, LoaderError)
    assert "OddError: odd one" in str(error)


@pytest.mark.parametrize(
    ("action", "word"),
    [("exit", "status 3"), ("kill", "SIGKILL"), ("segv", "SIGSEGV"), ("bus", "SIGBUS")],
)
@pytest.mark.usefixtures("never_looking")
def test_a_dead_worker_is_noticed_and_named(action, word):
    """LD-01: at once, after the windows before its own."""
    with DataLoader(Failing(action), 8, num_workers=2) as loader:
        found, error = read_until_error(loader)
        assert loader.state_dict()["position"] == len(found)
        rest = loader.state_dict()
    assert isinstance(error, WorkerDiedError)
    assert word in str(error)
    assert "window 4 of lane 0 in epoch 0" in str(error)
    assert found == list(range(128))
    with DataLoader(Failing("raise", at=-1), 8) as healthy:
        healthy.load_state_dict(rest)
        assert found + labels(healthy) == list(range(200))


@pytest.mark.usefixtures("never_looking")
@pytest.mark.parametrize("place", ["start", "load", "packed", "answered"])
def test_a_worker_killed_at_any_place_is_noticed(place, monkeypatch):
    """LD-01, LD-19: a slot that was being written is never handed over."""
    monkeypatch.setenv(faults.VARIABLE, f"loader.worker.{place}:kill")
    with DataLoader(Squares(100), 8, num_workers=1) as loader:
        found, error = read_until_error(loader)
    assert isinstance(error, WorkerDiedError)
    assert "SIGKILL" in str(error)
    assert found == (list(range(32)) if place == "answered" else [])


def test_a_stopped_worker_is_noticed(monkeypatch):
    """LD-02."""
    monkeypatch.setattr(_workers, "_LOOK_S", 0.1)
    with DataLoader(Failing("stop"), 8, num_workers=1) as loader:
        _, error = read_until_error(loader)
    assert isinstance(error, WorkerDiedError)
    assert "is stopped (SIGSTOP)" in str(error)


def test_a_silent_worker_is_noticed_after_the_timeout(monkeypatch):
    monkeypatch.setattr(_workers, "_LOOK_S", 0.05)
    loader = DataLoader(Slow(10), 5, num_workers=1, timeout_s=0.2)
    with loader, pytest.raises(WorkerDiedError, match=r"within 0.2 s; raise timeout_s"):
        next(iter(loader))


def test_damage_is_reported_by_the_worker_with_its_place(tmp_path):
    images = write_images(tmp_path, [40, 20])
    path = tmp_path / "images-1"
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    for options in ({}, {"num_threads": 1}, {"num_workers": 1}):
        with DataLoader(images, 8, **options) as loader:
            found, error = read_until_error(loader)
        assert isinstance(error, ChecksumError)
        assert (error.path, error.offset_bytes) == (str(path), 0)
        assert found == list(range(40))


def test_workers_hand_over_what_is_stored(tmp_path):
    images = write_images(tmp_path, [40, 20], Codec.ZSTD)
    for options in ({"num_workers": 1}, {"num_workers": 3, "prefetch": 1, "shuffle": True}):
        with DataLoader(images, 7, **options) as loader:
            found = []
            for batch in loader:
                expected = image_columns(0, 60)["image"][batch["label"]]
                assert (batch["image"] == expected).all()
                found += batch["label"].tolist()
            assert sorted(found) == list(range(60))


def test_workers_hand_over_variable_sizes(notes):
    """LD-16: empty values, texts, arrays of any length, absent ones."""
    with DataLoader(notes, 7, num_workers=2, shuffle=True) as loader:
        assert check_notes(loader) == list(range(60))
        report = loader.report()
        assert report.oversize_windows == 0
    with DataLoader(notes, 7, num_workers=2, shuffle=True, max_bytes=200_000) as loader:
        assert check_notes(loader) == list(range(60))


def check_notes(loader):
    found = []
    for batch in loader:
        for row, label in enumerate(batch["label"].tolist()):
            expected = note(label)
            assert batch["note"][row] == expected["note"]
            assert batch["blob"][row] == expected["blob"]
            assert batch["more"][row] == expected["more"]
            np.testing.assert_array_equal(batch["curve"][row], expected["curve"])
            flag = batch["flag"][row]
            assert (flag is np.ma.masked) == (expected["flag"] is None)
            found.append(label)
    return sorted(found)


def test_a_window_too_large_for_its_slot_comes_through_the_pipe():
    """LD-16."""
    with DataLoader(Growing(), 4, num_workers=1, max_bytes=1 << 20) as loader:
        for batch in loader:
            assert [len(data) // 1000 for data in batch["data"]] == batch["label"].tolist()
            assert (batch["block"] == batch["label"][:, None]).all()
        assert loader.report().oversize_windows > 0


def test_slots_that_do_not_fit_are_refused_with_what_they_need(images):
    loader = DataLoader(images, 4, num_workers=1, max_bytes=10_000, shuffle=True)
    with loader, pytest.raises(ConfigError, match=r"need max_bytes=\d+, got 10000"):
        next(iter(loader))


def test_a_control_group_too_small_is_refused_with_what_is_needed(images, monkeypatch):
    """LD-06, LD-17."""
    monkeypatch.setattr(_workers, "free_group_bytes", lambda: 1000)
    loader = DataLoader(images, 4, num_workers=2)
    with loader, pytest.raises(MemoryLimitError, match=r"need \d+ bytes, the control group"):
        next(iter(loader))


def test_memory_that_the_system_refuses_is_an_error_that_says_so(monkeypatch):
    monkeypatch.setattr(_workers, "free_group_bytes", lambda: None)
    before = num_fds_before(), children()
    loader = DataLoader(Squares(10), 4, num_workers=1, max_bytes=1 << 62)
    with loader, pytest.raises(MemoryLimitError, match="the system refused"):
        next(iter(loader))
    assert (num_fds(), children()) == before


@pytest.mark.parametrize("slot_bytes", [1 << 59, 1 << 60])
def test_memory_beyond_all_numbers_is_refused_and_leaves_nothing_open(monkeypatch, slot_bytes):
    monkeypatch.setattr(_workers, "free_group_bytes", lambda: None)
    before = num_fds_before()
    with pytest.raises(MemoryLimitError, match="16 slots of"):
        WorkerPool(LoaderJob([], slot_bytes, 16), 1)
    assert num_fds() == before


def test_reads_that_were_repeated_are_counted_in_every_process(images, monkeypatch):
    monkeypatch.setattr(_record_files, "ShardFiles", Rereading)
    sets, counted = mix([(images, 1), (images, 1)]), []
    for options in ({}, {"num_threads": 2}, {"num_workers": 1}, {"num_workers": 2}):
        with DataLoader(sets, 8, shuffle=True, window_bytes=30_000, epochs=1, **options) as loader:
            list(loader)
            counted.append(loader.report().rereads)
    assert counted[:3] == [counted[0]] * 3
    # Two processes both read a chunk that lies in a window of each.
    assert counted[3] >= counted[0] > 0


def test_a_consumer_that_keeps_everything_gets_copies_and_no_hang():
    """LD-10: slots stay within their bound."""
    with DataLoader(Squares(400), 8, num_workers=1) as loader:
        kept = list(loader)
        report = loader.report()
        assert (report.lent_slots, report.copied_windows) == (4, 9)
    # Also when the loader, its workers and their memory are gone.
    assert labels(kept) == list(range(400))
    assert all((b["square"] == b["label"][:, None] ** 2).all() for b in kept)


def test_a_slice_outlives_its_batch(images):
    with DataLoader(images, 4, num_workers=1) as loader:
        kept = [batch["image"][1, :5] for batch in loader]
        again = [batch["image"][1, :5].tolist() for batch in loader]
    gc.collect()
    assert [row.tolist() for row in kept] == again


def test_slots_come_back_when_their_arrays_die(images):
    with DataLoader(images, 4, num_workers=1) as loader:
        for _ in range(3):
            for batch in loader:
                assert batch["label"].base is not None
        del batch
        gc.collect()
        assert loader.report().lent_slots == 0
        assert loader.report().copied_windows == 0


def test_workers_serve_many_epochs_and_end_with_the_loader(images):
    before = num_fds_before(), children()
    loader = DataLoader(images, 8, num_workers=2)
    list(loader)
    pids = children() - before[1]
    assert len(pids) == 2
    list(loader)
    assert children() - before[1] == pids
    loader.close()
    assert (num_fds(), children()) == before
    loader.close()


def test_leaving_early_ends_the_workers(images):
    """LD-11: early break, two iterators at once, an iterator that is never used, collection."""
    before = num_fds_before(), children()
    loader = DataLoader(images, 8, num_workers=1)
    iter(loader)
    assert (num_fds(), children()) == before
    batch = None
    for batch in loader:
        assert batch.num_rows == 8
        break
    assert children() == before[1]
    del batch  # holds the shared memory, and that its descriptor
    assert num_fds() == before[0]
    first, second = iter(loader), iter(loader)
    assert labels([next(first)]) == labels([next(second)])
    del first, second, loader
    gc.collect()
    assert (num_fds(), children()) == before


def test_a_dataset_that_cannot_travel_is_refused():
    class Local(Squares):
        pass

    loader = DataLoader(Local(5), 2, num_workers=1)
    with loader, pytest.raises(ConfigError, match="cannot be sent to worker processes"):
        next(iter(loader))


def test_a_forked_process_does_not_touch_the_workers_of_its_parent(images):
    """LD-08."""
    loader = DataLoader(images, 8, num_workers=1)
    list(loader)
    before = children()
    pid = os.fork()
    if not pid:
        loader.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert children() == before
    assert labels(loader) == list(range(100))
    loader.close()


# --- whole processes ------------------------------------------------------------------------------

ROOT = Path(__file__).parents[4]
SCRIPT = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "include")!r}]
from tests.unit.loader.datasets import Failing, Sleepy, Squares
from trainfeed.loader import DataLoader
"""


def start(code, *, main=None):
    """Start a program that uses a loader; it runs in a session of its own."""
    command = [sys.executable, "-c", SCRIPT + code]
    if main is not None:
        main.write_text(SCRIPT + code)
        command = [sys.executable, str(main)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process):
    """Wait for a program; return its status, output and error output."""
    out, err = process.communicate(timeout=200)
    return process.returncode, out, err


def wait_until_gone(pids):
    end_s = time.monotonic() + SOON_S
    while time.monotonic() < end_s:
        if not any(is_running(pid) for pid in pids):
            return True
        threading.Event().wait(0.01)
    return False


BUSY = """
import os
from pathlib import Path
loader = DataLoader(Sleepy(10_000), 8, num_workers=2)
for i, batch in enumerate(loader):
    if i == 1:
        print(Path(f"/proc/self/task/{os.getpid()}/children").read_text(), flush=True)
"""


@pytest.mark.parametrize("in_thread", [False, True])
def test_workers_are_gone_soon_after_their_loader_is_killed(in_thread):
    """LD-03, LD-05: also when a thread started them; and the next loader starts."""
    code = BUSY
    if in_thread:
        body = "\n".join("    " + line for line in BUSY.splitlines())
        code = f"import threading\ndef run():\n{body}\nthreading.Thread(target=run).start()\n"
        code = code.replace("/task/{os.getpid()}/", "/task/{threading.get_native_id()}/")
    process = start(code)
    with process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(is_running, pids))
        process.kill()
        assert wait_until_gone(pids)
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_program_and_workers(number):
    """LD-04: one traceback at most, no worker left."""
    with start(BUSY) as process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        os.killpg(process.pid, number)
        status, _, err = finish(process)
        assert wait_until_gone(pids)
    assert status == -number
    assert err.count("Traceback") == (number == signal.SIGINT)
    assert err.count("KeyboardInterrupt") == (number == signal.SIGINT)


def test_a_program_without_a_main_guard_works(tmp_path):
    """LD-08: workers do not run the program again, unless its own classes are needed."""
    code = "print(sum(len(b['label']) for b in DataLoader(Squares(20), 8, num_workers=1)))"
    assert finish(start(code)) == (0, "20\n", "")
    assert finish(start(code, main=tmp_path / "program.py")) == (0, "20\n", "")


OWN_CLASS = """
class Own(Squares):
    pass

if __name__ == "__main__":
    with DataLoader(Own(20), 8, num_workers=1) as loader:
        print(sum(len(batch["label"]) for batch in loader))
"""


def test_a_class_of_the_main_program_is_found_by_workers(tmp_path):
    """LD-08."""
    assert finish(start(OWN_CLASS, main=tmp_path / "program.py")) == (0, "20\n", "")
    status, _, err = finish(start(OWN_CLASS))
    assert status == 1
    assert "defined in an interactive session" in err


def test_a_loader_works_inside_a_daemon_and_inside_a_fork_with_threads():
    """LD-08: other libraries' process pools may not have children; ours do not mind."""
    code = """
import multiprocessing, os, threading
def run():
    print(sum(len(b['label']) for b in DataLoader(Squares(20), 8, num_workers=1)), flush=True)
if __name__ == "__main__":
    lock = threading.Lock(); lock.acquire()
    thread = threading.Thread(target=lock.acquire); thread.start()
    child = multiprocessing.get_context("fork").Process(target=run, daemon=True)
    child.start(); child.join(); print(child.exitcode)
    lock.release(); thread.join()
"""
    assert finish(start(code)) == (0, "20\n0\n", "")


def test_an_interpreter_that_ends_in_mid_epoch_ends_cleanly():
    """LD-11: whatever is collected first."""
    for extra in ("", "sys.exit(7)"):
        code = f"it = iter(DataLoader(Squares(500), 8, num_workers=1)); next(it); {extra}"
        assert finish(start(code)) == (7 if extra else 0, "", "")
