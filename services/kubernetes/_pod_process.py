"""The process of a pod: a session of its own, which ends as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from services._process import Daemon
from services.kubernetes._pod_command import PodCommand


class PodProcess:
    """The running command of a container.

    Args:
        command: The process to start.
        uid: The pod's uid, which names the pid file.
        home: Folder of all pods; ``<home>/run/<uid>.pid`` finds the process after a restart.
        log: File for the output.
    """

    def __init__(self, command: PodCommand, uid: str, home: Path, log: Path) -> None:
        self._record = Daemon(uid, home)
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=command.folder,
                env=command.environ,
                start_new_session=True,
            )
        self._record.record(self._process.pid)

    def wait(self) -> int:
        """Wait for the command, kill other processes of its session, and return its exit code.

        The code is 128 plus the number of the signal if a signal ended the command.
        """
        status = self._process.wait()
        self._record.sweep()
        return status if status >= 0 else 128 - status

    def end(self, grace_s: float) -> None:
        """Send SIGTERM to the whole session, and SIGKILL after ``grace_s`` seconds."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def sweep_pods(home: Path) -> list[str]:
    """Kill the processes that a killed node left running, and return the uids of their pods."""
    found = sorted(path.stem for path in (home / "run").glob("*.pid"))
    for uid in found:
        Daemon(uid, home).sweep()
    return found
