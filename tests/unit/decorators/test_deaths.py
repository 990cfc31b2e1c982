"""Processes that are killed, stopped or orphaned: no pass hangs, no process stays."""

import errno
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from trainfeed.core import memory_group
from trainfeed.decorators import buffered, multiprocess_reader, xmap_readers
from trainfeed.errors import WorkerDiedError
from trainfeed.readers.ahead.children import Child, receive_any
from trainfeed.readers.ahead.forked import MessageKind, send_message

INCLUDE = Path(__file__).parents[3] / "include"


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "exit 3", "exit 0"])
def test_a_dead_process_is_noticed_after_its_good_samples(how):
    def read():
        yield from range(3)
        # What was handed over is on its way once a credit came back.
        yield from itertools.takewhile(lambda _: not ready.is_set(), itertools.repeat(3))
        end(how)

    ready = multiprocessing.Event()
    got = []

    def consume():
        for sample in multiprocess_reader([read], queue_size=2)():
            got.append(sample)
            if sample == 3:
                ready.set()

    with pytest.raises(WorkerDiedError, match="worker 0") as caught:
        consume()
    assert got[:3] == [0, 1, 2]
    expected = "status" if "exit" in how else how
    assert expected in str(caught.value)


def end(how):
    if how.startswith("exit"):
        os._exit(int(how[-1]))
    os.kill(os.getpid(), getattr(signal, how))


@pytest.mark.parametrize(
    ("num_kills", "said"),
    [
        (7, "SIGKILL before the end of its pass"),
        (8, "SIGKILL, for want of memory in its control group before the end of its pass"),
    ],
)
def test_want_of_memory_is_said_where_the_kernel_has_counted_it(
    tmp_path, monkeypatch, num_kills, said
):
    (tmp_path / "self").write_text("0::/\n")
    (tmp_path / "memory.max").write_text("max\n")
    (events := tmp_path / "memory.events").write_text("oom_kill 7\n")
    monkeypatch.setattr(memory_group, "_GROUPS", tmp_path / "self")
    monkeypatch.setattr(memory_group, "_ROOT", tmp_path)

    def dies():
        yield 1
        events.write_text(f"oom_kill {num_kills}\n")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerDiedError, match=said):
        list(multiprocess_reader([dies])())


def test_the_other_process_ends_too():
    def dies():
        yield 1
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerDiedError):
        for _ in multiprocess_reader([itertools.count, dies])():
            pass


def test_what_a_child_said_last_is_heard_although_it_left_credits_unread():
    proceed = multiprocessing.get_context("fork").Event()

    def service(connection):
        send_message(connection, MessageKind.ITEMS, [1], units=1)
        assert proceed.wait(30)
        send_message(connection, MessageKind.END, None)

    child = Child(service)
    try:
        assert receive_any([child])[1].content == [1]
        child.send_credits(1)
        proceed.set()
        while not child.has_ended():
            threading.Event().wait(0.01)
        assert receive_any([child])[1].kind is MessageKind.END
        with pytest.raises(WorkerDiedError, match="status 0"):
            receive_any([child])
    finally:
        child.close()


def test_a_process_that_cannot_be_watched_is_ended(monkeypatch):
    def refuse(pid):
        pids.append(pid)
        raise OSError(errno.EMFILE, "too many open files")

    pids = []
    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(OSError, match="too many open files"):
        Child(lambda connection: connection.recv(1))
    (pid,) = pids
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("order", [False, True])
def test_a_dead_mapper_is_noticed(order):
    def mapper(x):
        if x == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    with pytest.raises(WorkerDiedError, match="SIGKILL"):
        list(xmap_readers(mapper, lambda: iter(range(50)), 2, 4, order, use_processes=True)())


def test_a_stopped_process_is_told(monkeypatch):
    monkeypatch.setattr("trainfeed.readers.ahead.children._CHECK_S", 0.1)

    def read():
        yield 1
        os.kill(os.getpid(), signal.SIGSTOP)
        yield 2

    with pytest.raises(WorkerDiedError, match="is stopped by a signal"):
        list(multiprocess_reader([read])())


SCRIPT = """
import itertools, os, sys, time
from trainfeed.decorators import buffered, multiprocess_reader, xmap_readers
from trainfeed.readers.ahead.children import Child, receive_any
from trainfeed.readers.ahead.forked import MessageKind, send_message

def read():
    yield os.getpid()
    yield from itertools.count()

kind = sys.argv[1]
if kind == "busy":
    def read():
        yield os.getpid()
        while True:
            pass
reader = multiprocess_reader([read, read])
if kind == "xmap":
    reader = xmap_readers(lambda x: os.getpid(), itertools.count, 2, 4, use_processes=True)
samples = reader()
pids = set()
while len(pids) < 2:
    sample = next(samples)
    if sample > 1 and sample == sample and os.path.exists(f"/proc/{sample}/stat"):
        with open(f"/proc/{sample}/stat") as file:
            if file.read().rpartition(")")[2].split()[1] == str(os.getpid()):
                pids.add(sample)
print(*pids, flush=True)
if kind == "exit":
    sys.exit(0)
while True:
    time.sleep(0.01)
    if kind != "busy":
        next(samples)
"""


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("reader", signal.SIGKILL),
        ("busy", signal.SIGKILL),
        ("xmap", signal.SIGKILL),
        ("reader", signal.SIGINT),
        ("exit", None),
    ],
)
def test_workers_do_not_outlive_their_parent(kind, how):
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, kind],
        env={"PYTHONPATH": str(INCLUDE), "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        if how is not None:
            parent.send_signal(how)
        parent.wait(30)
    deadline = time.monotonic() + 30
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def is_alive(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_an_interpreter_ends_with_passes_left_open():
    code = (
        "import itertools; from trainfeed.decorators import buffered, xmap_readers;"
        "a = buffered(itertools.count, 3)(); next(a);"
        "b = xmap_readers(str, itertools.count, 2, 3)(); next(b); print('done')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(INCLUDE)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_pass_can_be_ended_in_its_own_thread():
    """A garbage collection may run, and end an iterator, in the thread that fills it."""
    holder = []

    def read():
        yield 1
        holder.clear()
        yield 2

    samples = buffered(read, 5)()
    holder.append(samples)
    next(samples)
    samples.close()


@contextmanager
def in_an_interpreter(code, **options):
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(INCLUDE), "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


FORKS_BESIDE_THREADS = """
import itertools, logging, random, threading
import numpy as np
from trainfeed.decorators import buffered, multiprocess_reader, xmap_readers

def draw():
    while True:
        np.random.random(200_000)
        random.random()

def log():
    while True:
        logging.getLogger("x").debug("y")

def read_ahead():
    while True:
        for _ in buffered(lambda: iter(range(50)), 3)():
            pass

for target in (draw, log, read_ahead):
    threading.Thread(target=target, daemon=True).start()
for _ in range(6):
    two = multiprocess_reader([lambda: iter([np.random.random()])] * 2)
    assert len(list(two())) == 2
    assert sorted(xmap_readers(abs, lambda: iter(range(5)), 2, 2, use_processes=True)()) == [
        0, 1, 2, 3, 4
    ]
print("done")
"""


def test_processes_start_beside_threads_that_draw_numbers_and_read():
    with in_an_interpreter(FORKS_BESIDE_THREADS) as process:
        assert process.communicate(timeout=240) == ("done\n", None)


HOLDS_A_LOCK = """
import os, threading
from trainfeed.decorators import multiprocess_reader

lock, held = threading.Lock(), threading.Event()

def hold():
    with lock:
        held.set()
        threading.Event().wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()

def read():
    yield os.getpid()
    with lock:
        yield 0

samples = multiprocess_reader([read])()
print(next(samples), flush=True)
next(samples)
"""


def test_a_lock_that_another_thread_holds_is_never_given_back_but_the_pass_can_be_left():
    """The rule that docs/guides/readers.md gives: a reader opens in its pass what it needs."""
    with in_an_interpreter(HOLDS_A_LOCK, stderr=subprocess.DEVNULL) as process:
        child = int(process.stdout.readline())
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        assert is_alive(child)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) != 0
    assert not is_alive(child)
