"""A process that runs commands of trainfeed one after another, and its end."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Final

from trainfeed.config import command_environ

__all__ = ["CommandEnd", "CommandProcess"]

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


class CommandProcess:
    """Runs commands in a process of its own, which ``close`` or the end of this process ends.

    The process is the leader of a new session, so that Ctrl-C reaches only this process. A command
    that runs while this process is killed comes to its end.
    """

    def __init__(self) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115
        reader, writer = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-P", "-m", "trainfeed.cli.build._served_commands", str(writer)],
                stdin=subprocess.PIPE,
                stdout=self._output,
                stderr=self._messages,
                text=True,
                env=command_environ(),
                start_new_session=True,
                pass_fds=[writer],
            )
        finally:
            os.close(writer)
        self._answers = os.fdopen(reader)
        self._commands = 0

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        """Whether the process takes a further command."""
        return self._process.poll() is None and self._commands < _MOST_COMMANDS

    def run(self, arguments: Sequence[str]) -> CommandEnd:
        """Run a command, and return how it ended; the process may have ended with it.

        Args:
            arguments: The arguments of ``trainfeed``.
        """
        self._commands += 1
        for file in (self._output, self._messages):
            file.seek(0)
            file.truncate()
        stdin = self._process.stdin
        # Without a reader, the process has ended: its status says how.
        with suppress(BrokenPipeError):
            if stdin is not None:
                stdin.write(f"{json.dumps(list(arguments))}\n")
                stdin.flush()
        answer = self._answer()
        status, *error = json.loads(answer) if answer else (self._process.wait(), "", "")
        return CommandEnd(status, _text(self._output), _text(self._messages), tuple(error))

    def _answer(self) -> str:
        """Return the line with status and error; "" if the process has ended without one.

        The process is watched beside the pipe, which a program that it left behind may hold open.
        """
        watched = os.pidfd_open(self._process.pid)
        try:
            select.select([self._answers.fileno(), watched], [], [])
            is_answered = bool(select.select([self._answers], [], [], 0)[0])
            return self._answers.readline() if is_answered else ""
        finally:
            os.close(watched)

    def terminate(self) -> None:
        """Ask the process to end."""
        self._process.terminate()

    def end(self) -> None:
        """Wait for the process, and kill it with its workers if it has not ended after 20 s."""
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process when its command has ended, and release its files."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()
        for file in (self._output, self._messages, self._answers):
            file.close()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
