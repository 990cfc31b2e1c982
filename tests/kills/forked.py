"""Processes that begin as forks of a warm one: commands, and the programs that commands start.

A new interpreter needs a second for its imports, and there are thousands of cases. Here the
imports are done once. A ``ProgramChild`` of trainfeed is a fork, too: it counts its calls for
itself, as another process does.
"""

from __future__ import annotations

import atexit
import importlib
import io
import json
import logging
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from trainfeed.core import child_processes as _child_processes
from trainfeed.core import faults

__all__ = ["fork_programs", "forked", "wait_for_all"]

TRACEBACK = 99
LIMIT_S = 120.0


def forked(act: Callable[[], object], output: Path, errors: Path | None = None) -> int:
    """Do something in a fork, whose output goes to a file; return how it ended.

    Everything that it has started is gone when this returns.

    Args:
        act: What to do.
        output: The file; made or emptied.
        errors: One for what goes to stderr, by default the same.
    """
    pid = os.fork()
    if not pid:
        _ended(act, output, errors)
    _, status = os.waitpid(pid, 0)
    wait_for_all()
    return os.waitstatus_to_exitcode(status)


def wait_for_all() -> None:
    """Wait for processes that lost their parent; this process must adopt them."""
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            assert time.monotonic() < deadline_s, "a process outlives its command"
            time.sleep(0.002)


def _ended(act: Callable[[], object], output: Path, errors: Path | None) -> None:
    """Do it, with the output in a file, and end this process as an interpreter does."""
    status = TRACEBACK
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd = os.open(output, flags, 0o600)
        second = fd if errors is None else os.open(errors, flags, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        for number, file in enumerate((nothing, fd, second)):
            os.dup2(file, number)
        status = _status(act)
    except BaseException:  # noqa: BLE001 (it must not return into the harness)
        traceback.print_exc()
    finally:
        _leave(status)


def _status(act: Callable[[], object]) -> int:
    try:
        act()
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
            return 1
        return end.code or 0
    return 0


def _leave(status: int) -> None:
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        status = TRACEBACK
    os._exit(status)


def fork_programs() -> None:
    """Let trainfeed start its programs as forks of this process, for the rest of its life."""
    _child_processes.subprocess = SimpleNamespace(Popen=ForkedProgram, DEVNULL=subprocess.DEVNULL)


class ForkedProgram:
    """As much of ``subprocess.Popen`` as trainfeed uses for programs of its own."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int,
        stdout: object,
        stderr: object,
        pass_fds: Sequence[int],
        env: Mapping[str, str],
        process_group: int = -1,
        start_new_session: bool = False,
    ) -> None:
        self.returncode: int | None = None
        told, to_tell = os.pipe() if stdout == subprocess.PIPE else (None, stdout.fileno())
        ready, is_ready = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            assert stdin == subprocess.DEVNULL
            source = os.open(os.devnull, os.O_RDONLY)
            said = to_tell if stderr == subprocess.STDOUT else stderr.fileno()
            try:
                if start_new_session:
                    os.setsid()
                elif process_group >= 0:
                    os.setpgid(0, process_group)
                os.write(is_ready, b".")
                _be_alone((source, to_tell, said), pass_fds, env)
            except BaseException:  # noqa: BLE001
                os._exit(TRACEBACK)
            _run(command)
        # As ``Popen``, which returns when the program has begun: a signal to its group finds it.
        os.close(is_ready)
        os.read(ready, 1)
        os.close(ready)
        if told is not None:
            os.close(to_tell)
        self.stdout = None if told is None else io.BufferedReader(io.FileIO(told))

    def poll(self) -> int | None:
        """Return how the process has ended, None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float = LIMIT_S) -> int:
        """Wait until it has ended."""
        deadline_s = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline_s:
                raise subprocess.TimeoutExpired("a forked program", timeout)
            time.sleep(0.001)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Signal the process, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process."""
        self.send_signal(signal.SIGKILL)


def _be_alone(standard: Sequence[int], kept: Sequence[int], env: Mapping[str, str]) -> None:
    """Have the descriptors, the environment and the signals that a new program would have."""
    moved = [os.dup(fd) for fd in standard]
    for number, fd in enumerate(moved):
        os.dup2(fd, number)
    for fd in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if fd > 2 and fd not in kept:
            with suppress(OSError):  # the one of the listing
                os.close(fd)
    os.environ.clear()
    os.environ.update(env)
    faults._plan.cache_clear()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    atexit._clear()


def _run(command: Sequence[str]) -> None:
    """Run a program of trainfeed as its command line says, and end."""

    def act() -> None:
        _, module, arguments = json.loads(command[-1])
        importlib.import_module(module).main(*arguments)

    try:
        status = _status(act)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        status = 1
    _leave(status)
