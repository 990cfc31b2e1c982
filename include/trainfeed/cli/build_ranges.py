"""``trainfeed build`` over a range: a command for each interval, in processes beside this one."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any, Final, TypeAlias, cast

from trainfeed.cli.printing import Result, Table, print_message, program
from trainfeed.core.child_processes import ProgramChild, next_message
from trainfeed.core.config import command_environ
from trainfeed.core.process_ties import signal_name

# --- A process that runs commands of trainfeed one after another, and its end

_PROGRAM: Final = "trainfeed.cli.served_commands"
_GRACE_S: Final = 20.0
# What functions and libraries leave behind in a process does not add up beyond this.
_MOST_COMMANDS: Final = 100


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended.

    Attributes:
        status: Its exit status; minus the number of the signal that killed the process.
        output: What it wrote to standard output.
        messages: What it wrote to standard error.
        error: Class and message of the error that ended it; empty without one.
    """

    status: int
    output: str
    messages: str
    error: tuple[str, str] = ("", "")


# Status of a command, with class and message of its error, from the process that ran it.
_Answer: TypeAlias = "tuple[CommandProcess, tuple[int, tuple[str, str]]]"


class CommandProcess(ProgramChild):
    """Runs commands in a process of its own, which ``close`` or the end of this process ends.

    The process is the leader of a new session, so that Ctrl-C reaches only this process. A command
    that runs while this process is killed comes to its end.
    """

    def __init__(self) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115
        super().__init__(
            _PROGRAM,
            stdout=self._output,
            stderr=self._messages,
            env=command_environ(),
            start_new_session=True,
        )
        self._commands = 0

    @property
    def is_usable(self) -> bool:
        """Whether the process takes a further command."""
        return not self.has_ended() and self._commands < _MOST_COMMANDS

    def run(self, arguments: Sequence[str]) -> CommandEnd:
        """Run a command, and return how it ended; the process may have ended with it.

        Args:
            arguments: The arguments of ``trainfeed``.
        """
        self._commands += 1
        for file in (self._output, self._messages):
            file.seek(0)
            file.truncate()
        with suppress(OSError):
            self.connection.send(list(arguments))
        try:
            _, (status, error) = cast("_Answer", next_message([self], None))
        except ChildProcessError:
            # It has ended without an answer: its status says how.
            status, error = self.process.wait(), ("", "")
        return CommandEnd(status, _text(self._output), _text(self._messages), error)

    def death(self) -> ChildProcessError:
        """Return the error for a process that has ended without an answer."""
        return ChildProcessError(self.pid)

    def terminate(self) -> None:
        """Ask the process to end."""
        self.process.terminate()

    def end(self) -> None:
        """Wait for the process, and kill it with its workers if it has not ended after 20 s."""
        if not self.has_ended(_GRACE_S):
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process when its command has ended, and release its files."""
        self.connection.close()
        self.process.wait()
        self.release()
        for file in (self._output, self._messages):
            file.close()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


# --- ``trainfeed build`` over a range: the command of each interval, in processes beside this one

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


# --- The results of a range of builds, as a table or JSON

_COLUMNS: Final = ("interval", "outcome", "generation", "samples", "quarantined", "filtered")


def result_of(
    results: Sequence[IntervalBuild],
    again: str,
    *,
    is_ended: bool,
    columns: Sequence[str] = _COLUMNS,
) -> Result:
    """Return the result of a range; it has failed with one of its intervals.

    Args:
        results: How the build of each interval ended; without any, there is no table.
        again: What is said of the intervals that failed, behind their number.
        is_ended: Whether the command was ended before all were built.
        columns: As of a row.
    """
    failed = sum(each.status != 0 for each in results)
    return Result(
        [each.to_json() for each in results],
        [Table(columns, [_result_row(each, columns) for each in results])] if results else (),
        [f"{failed} of {len(results)} intervals {again}"] if failed else (),
        (Result.ENDED if is_ended else Result.FAILED) if failed else 0,
    )


def _result_row(result: IntervalBuild, columns: Sequence[str]) -> list[object]:
    """Return the row of a result.

    Args:
        result: How the build of an interval ended.
        columns: Names of the columns: the interval, its outcome, and keys of the report.
    """
    if result.status == 0:
        report = result.report
        return [result.interval, report["verdict"], *(report.get(c, "") for c in columns[2:])]
    kind, message = result.error
    return [result.interval, f"{kind}: {message}" if kind else message, *[""] * len(columns[2:])]
