"""Ties between a process and its parent, tested with real processes."""

import os
import pickle
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.processes import oddly_named
from trainfeed.core.process_ties import (
    ending,
    has_ended,
    is_stopped,
    mark_has_ended,
    portable,
    process_mark,
    program,
    signal_name,
    start_ticks,
)
from trainfeed.errors import FormatError, LoaderError

# A child that is tied to its parent, says so, and would sleep for a minute.
TIED = """
import sys, threading
from trainfeed.core.process_ties import tie_to_parent
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
    code = "from trainfeed.core.process_ties import tie_to_parent; print(tie_to_parent(1))"
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


@pytest.mark.parametrize(
    ("status", "want", "text"),
    [
        (0, None, "exited with status 0"),
        (3, True, "exited with status 3"),
        (-15, True, "was killed by SIGTERM"),
        (-9, False, "was killed by SIGKILL"),
        (-9, None, "was killed by SIGKILL, perhaps for want of memory"),
        (-9, True, "was killed by SIGKILL, for want of memory in its control group"),
    ],
)
def test_an_ending_says_no_more_than_is_known(status, want, text):
    assert ending(status, want) == text


def caught(error):
    with pytest.raises(type(error)) as found:
        raise error
    return found.value


def test_an_error_arrives_as_it_was_with_where_it_happened():
    error = caught(FormatError("torn", path="a/b", offset_bytes=7))
    error.add_note("of the set")
    found = portable(error, "raised in process")
    arrived = pickle.loads(pickle.dumps(found))
    assert type(arrived) is FormatError
    assert (arrived.path, arrived.offset_bytes) == ("a/b", 7)
    first, where = arrived.__notes__
    assert first == "of the set"
    assert where.startswith(f"raised in process {os.getpid()}:\nTraceback")
    assert "in caught" in where


class OddError(Exception):
    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


class TellingError(Exception):
    """Its constructor makes the text, and would make it again."""

    def __init__(self, what):
        super().__init__(f"cannot read {what}")


class SilentError(Exception):
    def __str__(self):
        raise ValueError


class TurncoatError(Exception):
    def __reduce__(self):
        return ValueError, self.args


@pytest.mark.parametrize("error", [OddError("so", 2), OddError("so", print), TurncoatError("so")])
def test_an_error_that_would_not_arrive_as_it_was_is_told_with_its_name(error):
    arrived = pickle.loads(pickle.dumps(portable(caught(error), "in here")))
    assert type(arrived) is LoaderError
    assert str(arrived) == f"{__name__}.{type(error).__name__}: so"
    assert "in caught" in arrived.__notes__[0]


def test_an_error_whose_text_would_change_is_told_with_its_name():
    arrived = portable(caught(TellingError("a/b")), "in here")
    assert type(arrived) is LoaderError
    assert str(arrived) == f"{__name__}.TellingError: cannot read a/b"


def test_an_error_without_a_text_is_told_with_its_name():
    assert "SilentError" in str(portable(caught(SilentError()), "in here"))


def test_a_process_that_is_not_shown_has_not_ended(monkeypatch):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        machine = process_mark().partition("-")[0]
        mark = f"{machine}-{process.pid}-{start_ticks(process.pid)}"
        assert mark_has_ended(mark) is False
        monkeypatch.setattr(Path, "read_bytes", refuse)
        assert mark_has_ended(mark) is None
        assert not has_ended(process.pid)
        process.kill()
        process.wait()
        assert mark_has_ended(mark) is True


def refuse(_):
    raise PermissionError


def test_an_error_that_is_sent_twice_says_once_where_it_happened():
    error = caught(ValueError("of every window"))
    for _ in range(2):
        assert len(portable(error, "in here").__notes__) == 1


def test_a_new_interpreter_finds_modules_where_this_process_finds_them(tmp_path, monkeypatch):
    # A folder whose name is no text, and one that is no string: both stand in paths of users.
    named = tmp_path / os.fsdecode(b"\xff folder")
    named.mkdir()
    (named / "told.py").write_text("import told_too\ndef main(*args):\n    told_too.tell(args)\n")
    (tmp_path / "told_too.py").write_text("tell = print\n")
    monkeypatch.setattr(sys, "path", [str(named), tmp_path, *sys.path])
    done = subprocess.run(program("told", [1, "two"]), capture_output=True, text=True, check=True)
    assert done.stdout == "(1, 'two')\n"


def test_a_program_imports_nothing_of_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "importlib.py").write_text("raise SystemExit('of the working folder')\n")
    (tmp_path / "json.py").write_text("raise SystemExit('of the working folder')\n")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "told.py").write_text("def main():\n    print('told')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "path"), *filter(None, sys.path)])
    told = program("told", [])
    done = subprocess.run(told, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "told\n"
