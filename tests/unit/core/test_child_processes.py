"""Child processes: messages before deaths, deaths whatever a child left behind, no interrupts."""

import errno
import os
import signal
import subprocess
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from trainfeed.core.child_processes import ProgramChild, next_message, poll

PROGRAM = "child_program_of_a_test"
CODE = """
import os, signal, sys
from multiprocessing.connection import Connection
from trainfeed.core.process_ties import leave_interrupts

def main(channel, memory, parent, act):
    if act == "waits":
        os.write(memory, b"started")
        leave_interrupts()
    connection = Connection(channel)
    if act == "leaves":
        connection.send("last")
        if not os.fork():
            signal.pause()
    elif act == "closes":
        connection.close()
        signal.pause()
    elif act == "waits":
        connection.send(connection.recv())
    os._exit(3)
"""
LIMIT_S = 60.0


class Told(ProgramChild):
    def death(self):
        self.has_ended(0.1)
        return ChildProcessError(self.ending(self.process.poll()))


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts the program above; ends all of its processes."""
    (tmp_path / f"{PROGRAM}.py").write_text(textwrap.dedent(CODE))
    monkeypatch.syspath_prepend(tmp_path)
    started, memory = [], os.memfd_create("of a test")

    def begin(act):
        started.append(Told(PROGRAM, act, fds=[memory], process_group=0))
        return started[-1]

    yield begin
    os.close(memory)
    for child in started:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.process.wait()
        child.release()
        child.release()


def test_the_last_message_comes_before_the_death_of_which_a_descendant_would_not_tell(start):
    """The descendant holds the connection open, so its end does not say that the child is dead."""
    child = start("leaves")
    assert next_message([child], LIMIT_S) == (child, "last")
    with pytest.raises(ChildProcessError, match="exited with status 3"):
        next_message([child], LIMIT_S)


def test_a_child_that_closed_its_end_is_not_waited_for(start):
    with pytest.raises(ChildProcessError, match="status None"):
        next_message([start("closes")], LIMIT_S)


def test_only_the_death_of_a_needed_child_is_an_error(start):
    dead, alive = start("nothing"), start("waits")
    assert dead.has_ended(LIMIT_S)
    assert next_message([dead, alive], 0.0, needed=[alive]) is None
    alive.connection.send("asked")
    assert next_message([dead, alive], LIMIT_S, needed=[alive]) == (alive, "asked")
    with pytest.raises(ChildProcessError, match="status 3"):
        next_message([dead, alive], LIMIT_S)


def test_an_interrupt_does_not_end_a_child_that_is_starting(start):
    child = start("waits")
    os.killpg(child.pid, signal.SIGINT)
    child.connection.send("alive")
    assert next_message([child], LIMIT_S) == (child, "alive")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_a_stopped_child_is_told_after_three_looks_in_a_row(start):
    child = start("waits")
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert [child.stays_stopped() for _ in range(3)] == [False, False, True]
    os.kill(child.pid, signal.SIGCONT)
    os.waitid(os.P_PID, child.pid, os.WCONTINUED | os.WNOWAIT)
    assert not child.stays_stopped()


def test_a_child_that_cannot_be_started_leaves_no_file_open(monkeypatch):
    def refused(*_, **__):
        raise OSError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refused)
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(OSError, match="no more processes"):
        Told(PROGRAM, "waits")
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_waiting_for_nothing_takes_its_time_and_says_so():
    reader, writer = os.pipe()
    assert poll([reader], 0.01) == []
    os.close(writer)
    assert poll([reader], None) == [reader]
    os.close(reader)


def test_a_process_that_cannot_be_watched_is_ended(start, monkeypatch):
    def refuse(pid):
        pids.append(pid)
        raise OSError(errno.EMFILE, "too many open files")

    pids, fds = [], sorted(Path("/proc/self/fd").iterdir())
    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(OSError, match="too many open files"):
        start("waits")
    (pid,) = pids
    assert not Path(f"/proc/{pid}").exists()
    assert sorted(Path("/proc/self/fd").iterdir()) == fds
