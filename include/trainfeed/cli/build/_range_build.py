"""``trainfeed build`` over a range: a separate process for each interval, some at once.

Each process runs the command for one interval, so the result is that of the same commands one after
another. A failed interval does not affect the others. If this process is told to end, it ends the
running builds and waits for them. If it is killed, running builds continue to the end of their
interval.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from trainfeed.cli._printing import print_message, program
from trainfeed.config import command_environ
from trainfeed.process_ties import signal_name

__all__ = ["IntervalBuild", "build_each"]

_GRACE_S: Final = 20.0
_TAIL_CHARS: Final = 2000
_ERROR: Final = re.compile(r"^(\w*(?:Error|Exception)): (.*)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class IntervalBuild:
    """How the build of one interval of a range ended.

    Attributes:
        interval: Name of the interval.
        status: Exit status of the command; None if it was not started, or was ended from here.
        report: The JSON of ``trainfeed.pipeline.local.build``; empty unless status is 0.
        error: Class and text of the error; empty without one.
    """

    interval: str
    status: int | None
    report: dict[str, Any] = field(default_factory=dict)
    error: tuple[str, str] = ("", "")

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that ``--json`` prints."""
        if self.status == 0:
            return {"interval": self.interval, "status": 0, **self.report}
        kind, message = self.error
        return {
            "interval": self.interval,
            "status": self.status,
            "error": {"kind": kind, "message": message},
        }


def build_each(
    name: str,
    intervals: Sequence[str],
    options: Callable[[str], Sequence[str]],
    *,
    jobs: int,
    on_end: Callable[[IntervalBuild], object],
    command: Sequence[str] = ("build",),
) -> tuple[list[IntervalBuild], bool]:
    """Build intervals in order, ``jobs`` at once.

    Args:
        name: The data set.
        intervals: Names of its intervals.
        options: Function from an interval to further options of its command.
        jobs: Number of builds at once, at least 1.
        on_end: Called with each result, in the order in which builds end.
        command: The command that builds one interval, with the options and output of ``build``.

    Returns:
        The results in the order of ``intervals``, and whether Ctrl-C ended the call early.
    """
    found: dict[str, IntervalBuild] = {}
    running = _Running()
    is_ended = False
    with ThreadPoolExecutor(jobs) as pool:
        futures = [
            pool.submit(_build, running, [*command, name], each, options(each))
            for each in intervals
        ]
        try:
            for result in _in_order_of_their_end(futures):
                found[result.interval] = result
                on_end(result)
        # The pool waits for its threads, and these for their processes, so the processes end first.
        except KeyboardInterrupt:
            is_ended = True
            running.end()
        except SystemExit:
            running.end()
            raise
    for future in futures:
        result = future.result()
        found.setdefault(result.interval, result)
    return [found[interval] for interval in intervals], is_ended


def _in_order_of_their_end(
    futures: Sequence[Future[IntervalBuild]],
) -> Iterator[IntervalBuild]:
    for future in as_completed(futures):
        yield future.result()


class _Running:
    """The running processes; after ``end``, no further one starts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._is_ended = False

    @contextmanager
    def start(self, command: Sequence[str]) -> Iterator[subprocess.Popen[str] | None]:
        """Start a process, or yield None after ``end``."""
        with self._lock:
            processes = [] if self._is_ended else [_start(command)]
            self._processes.update(processes)
        try:
            yield processes[0] if processes else None
        finally:
            with self._lock:
                self._processes.difference_update(processes)

    @property
    def is_ended(self) -> bool:
        """Whether the processes were told to end."""
        return self._is_ended

    def end(self) -> None:
        """Ask all processes to end; kill those that do not end within 20 s."""
        with self._lock:
            self._is_ended = True
            processes = list(self._processes)
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=command_environ(),
        # A new session, so that Ctrl-C reaches only this process, which ends the others.
        start_new_session=True,
    )


def _build(
    running: _Running, command: Sequence[str], interval: str, options: Sequence[str]
) -> IntervalBuild:
    name = command[-1]
    place = [*command, "--interval", interval, "--json"]
    with running.start([sys.executable, "-P", "-m", "trainfeed", *place, *options]) as process:
        if process is None:
            return IntervalBuild(interval, None, error=("", "not started"))
        output, messages = process.communicate()
    messages = messages.replace("python -m trainfeed", program()).strip()
    if messages:
        print_message(f"{name}/{interval}: {messages}")
    if process.returncode == 0:
        return IntervalBuild(interval, 0, json.loads(output))
    if running.is_ended:
        return IntervalBuild(interval, None, error=("", "ended"))
    return IntervalBuild(interval, process.returncode, error=_error(process.returncode, messages))


def _error(status: int, messages: str) -> tuple[str, str]:
    if status < 0:
        return "Killed", f"ended by signal {-status} ({signal_name(-status)})"
    match = _ERROR.search(messages)
    return (match[1], match[2]) if match else ("", messages[-_TAIL_CHARS:] or f"status {status}")
