"""A rank as a process: its output in a bounded log, and an end that no child of it survives.

A rank leads a process group of its own, and its environment names its job, so what it has forked
is found also where it has left the group. All of it is ended with the rank: a child that goes on
would write into a job that is over, or hold memory that the next one needs.
"""

from __future__ import annotations

import logging
import os
import select
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainfeed.errors import StorageError
from trainfeed.jobs._bounded_log import BoundedLog

__all__ = ["RankProcess", "end_leftovers", "wait_for_end"]

_CHUNK_BYTES: Final = 1 << 16
# By this variable a process says which rank of which job it belongs to.
_MARK: Final = "TRAINFEED_RANK_OF"
# What a process that was killed may take to be gone.
_GONE_S: Final = 5.0

Echo = Callable[[bytes], object]

logger = logging.getLogger(__name__)


class RankProcess:
    """A rank that runs.

    Args:
        command: What to run.
        home: The job's folder, where it runs.
        rank: Its number.
        environment: All that it gets.
        log: The file of its output; emptied.
        echo: Gets the output as well, piece by piece, in another thread.

    Raises:
        OSError: There is no room for another process.
        StorageError: The log cannot be made.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        home: Path,
        rank: int,
        environment: Mapping[str, str],
        log: Path,
        echo: Echo | None = None,
    ) -> None:
        self._mark = f"{home}:{rank}"
        self._log: BoundedLog | None = BoundedLog(log)
        self._echo = echo
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=subprocess.STDOUT,
                cwd=home,
                env={**environment, _MARK: self._mark},
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            self._log.close()
            raise
        finally:
            os.close(writing)
        self._ending = os.pidfd_open(self._process.pid)
        # Its end ends the pump: a child may hold the other pipe open for ever.
        self._stopping, self._stop = os.pipe()
        self._pump = threading.Thread(target=self._copy, args=(reading,), daemon=True)
        self._pump.start()

    @property
    def pid(self) -> int:
        """Its process id, which is the number of its group, too."""
        return self._process.pid

    def fileno(self) -> int:
        """Return what is readable once it has ended."""
        return self._ending

    @property
    def status(self) -> int | None:
        """As ``subprocess`` gives it; None while it runs. Its number stays taken until ``end``."""
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def terminate(self) -> None:
        """Ask it and its children to end."""
        self._signal_group(signal.SIGTERM)

    def end(self, grace_s: float) -> int:
        """Return its status when it and all that it has started are gone, and the log is whole.

        Args:
            grace_s: How long it may take to end by itself; then it is killed.
        """
        wait_for_end([self], grace_s)
        _kill_marked(self._mark)
        # The number of a process that is not reaped is nobody else's, and so is that of its group.
        self._signal_group(signal.SIGKILL)
        status = self._process.wait()
        os.close(self._stop)
        self._pump.join()
        os.close(self._stopping)
        os.close(self._ending)
        if self._log is not None:
            self._log.close()
        return status

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _copy(self, reading: int) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(reading, selectors.EVENT_READ)
            selector.register(self._stopping, selectors.EVENT_READ)
            is_open = True
            while is_open:
                ready = {key.fd for key, _ in selector.select()}
                is_open = reading in ready and self._take(reading)
        os.close(reading)

    def _take(self, reading: int) -> bool:
        """Copy what is there; return False at the end."""
        data = os.read(reading, _CHUNK_BYTES)
        if data:
            self._keep(data)
            if self._echo is not None:
                self._echo(data)
        return bool(data)

    def _keep(self, data: bytes) -> None:
        if self._log is None:
            return
        try:
            self._log.write(data)
        except StorageError as error:
            # The rank would wait for ever for somebody to read what it says.
            logger.warning("the log of the rank ends here, and the rank goes on: %s", error)
            self._log.close()
            self._log = None


def wait_for_end(ranks: Sequence[RankProcess], timeout_s: float | None = None) -> list[RankProcess]:
    """Return those of some ranks that have ended, once one has, or after so long at most."""
    with selectors.DefaultSelector() as selector:
        for rank in ranks:
            selector.register(rank, selectors.EVENT_READ, rank)
        return [key.data for key, _ in selector.select(timeout_s)]


def end_leftovers(home: Path) -> None:
    """End what ranks of a job have left whose launcher was killed; it holds the job's lock."""
    _kill_marked(f"{home}:")


def _kill_marked(mark: str) -> None:
    """Kill the processes that say that they belong to a rank, and what they fork meanwhile."""
    deadline_s = time.monotonic() + _GONE_S
    while left := list(_marked(mark)):
        if time.monotonic() > deadline_s:
            logger.warning("processes %s were killed and are not gone", left)
            return
        for pid in left:
            _kill(pid, deadline_s)


def _kill(pid: int, deadline_s: float) -> None:
    """Kill a process, and wait until it is gone, for so long at most."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        poll = select.poll()
        poll.register(process, select.POLLIN)
        poll.poll(max(0.0, 1000 * (deadline_s - time.monotonic())))
    finally:
        os.close(process)


def _marked(mark: str) -> Iterator[int]:
    """Yield the processes of this account whose environment has a mark, and that have not ended."""
    entry = f"\0{_MARK}={mark}".encode()
    for path in Path("/proc").iterdir():
        if path.name.isdecimal() and path.name != str(os.getpid()):
            # Gone meanwhile, or not ours. What has ended has no environment any more.
            with suppress(OSError):
                if _has(b"\0" + (path / "environ").read_bytes(), entry):
                    yield int(path.name)


def _has(environment: bytes, entry: bytes) -> bool:
    return entry in environment if entry.endswith(b":") else entry + b"\0" in environment
