"""``trainfeed build`` over a range: the command of each interval, in processes beside this one.

A process runs the commands of one interval after another, so the result is that of these commands.
A failed interval does not affect the others, also if its process dies: the next one gets a new
process. If this process is told to end, it ends the running builds and waits for them. If it is
killed, running builds continue to the end of their interval.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from trainfeed.cli._printing import print_message, program
from trainfeed.cli.build._command_process import CommandEnd, CommandProcess
from trainfeed.process_ties import signal_name

__all__ = ["IntervalBuild", "build_each"]

_TAIL_CHARS: Final = 2000


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
    processes = _Processes()
    is_ended = False
    with closing(processes), ThreadPoolExecutor(jobs) as pool:
        futures = [
            pool.submit(_build, processes, [*command, name], each, options(each))
            for each in intervals
        ]
        try:
            for result in _in_order_of_their_end(futures):
                found[result.interval] = result
                on_end(result)
        # The pool waits for its threads, and these for their processes, so the processes end first.
        except KeyboardInterrupt:
            is_ended = True
            processes.end()
        except SystemExit:
            processes.end()
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


class _Processes:
    """The processes that build; after ``end``, no further build starts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[CommandProcess] = []
        self._busy: set[CommandProcess] = set()
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether the processes were told to end."""
        return self._is_ended

    @contextmanager
    def lent(self) -> Iterator[CommandProcess | None]:
        """Yield a process for one command, or None after ``end``."""
        with self._lock:
            process = None if self._is_ended else self._usable() or CommandProcess()
            self._busy.update([process] if process else [])
        try:
            yield process
        finally:
            with self._lock:
                self._busy.difference_update([process])
                self._idle.extend([process] if process else [])

    def end(self) -> None:
        """Ask the processes at work to end; kill those that do not end within 20 s."""
        with self._lock:
            self._is_ended = True
            processes = list(self._busy)
        for process in processes:
            process.terminate()
        for process in processes:
            process.end()

    def close(self) -> None:
        """End the idle processes."""
        while self._idle:
            self._idle.pop().close()

    def _usable(self) -> CommandProcess | None:
        while self._idle:
            process = self._idle.pop()
            if process.is_usable:
                return process
            process.close()
        return None


def _build(
    processes: _Processes, command: Sequence[str], interval: str, options: Sequence[str]
) -> IntervalBuild:
    name = command[-1]
    with processes.lent() as process:
        if process is None:
            return IntervalBuild(interval, None, error=("", "not started"))
        ended = process.run([*command, "--interval", interval, "--json", *options])
    messages = ended.messages.replace("python -m trainfeed", program()).strip()
    if messages:
        print_message(f"{name}/{interval}: {messages}")
    if ended.status == 0:
        return IntervalBuild(interval, 0, json.loads(ended.output))
    if processes.is_ended:
        return IntervalBuild(interval, None, error=("", "ended"))
    return IntervalBuild(interval, ended.status, error=_error(ended, messages))


def _error(ended: CommandEnd, messages: str) -> tuple[str, str]:
    status, (kind, message) = ended.status, ended.error
    if status < 0:
        return "Killed", f"ended by signal {-status} ({signal_name(-status)})"
    if kind:
        return kind, message.replace("python -m trainfeed", program())
    return "", messages[-_TAIL_CHARS:] or f"status {status}"
