"""What one process has to do with another, asked of real ones."""

import os
import select
import signal
import subprocess
import sys

import pytest

from tests.unit.processes import oddly_named
from trainfeed.process_ties import has_ended, is_stopped, signal_name, start_ticks

# A child that is tied to its parent, says so, and would sleep for a minute.
TIED = """
import sys, threading
from trainfeed.process_ties import tie_to_parent
print(tie_to_parent(int(sys.argv[1])), flush=True)
threading.Event().wait(60)
"""
# Starts it, hands its number on, and waits to be killed.
PARENT = """
import os, subprocess, sys, threading
command = [sys.executable, "-c", sys.argv[1], str(os.getpid())]
child = subprocess.Popen(command, stdout=subprocess.PIPE)
print(child.pid, child.stdout.readline().decode().strip(), flush=True)
threading.Event().wait(60)
"""


@pytest.mark.parametrize(
    ("number", "name"),
    [(9, "SIGKILL"), (11, "SIGSEGV"), (34, "SIGRTMIN"), (40, "SIGRTMIN+6"), (33, "signal 33")],
)
def test_every_signal_has_a_name(number, name):
    assert signal_name(number) == name


def test_a_child_ends_with_its_parent():
    command = [sys.executable, "-c", PARENT, TIED]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        child, tied = parent.stdout.readline().split()
        pidfd = os.pidfd_open(int(child))
        parent.kill()
    assert tied == b"True"
    assert select.select([pidfd], [], [], 30)[0]
    os.close(pidfd)


def test_another_parent_than_the_one_that_was_meant_is_told():
    code = "from trainfeed.process_ties import tie_to_parent; print(tie_to_parent(1))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"False\n"


def test_a_stopped_process_is_told_from_a_running_and_an_ended_one():
    process = subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"])
    try:
        assert not is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert is_stopped(process.pid)
    finally:
        process.kill()
        process.wait()
    assert not is_stopped(process.pid)


def test_the_name_of_a_process_is_any_bytes():
    with oddly_named() as pid:
        assert not has_ended(pid)
        assert not is_stopped(pid)
        assert start_ticks(pid) >= start_ticks(os.getpid())


def test_a_process_has_ended_before_it_is_reaped_and_when_it_is_gone():
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(process.pid)
        assert start_ticks(process.pid) is None
    assert has_ended(process.pid)
    assert start_ticks(process.pid) is None
