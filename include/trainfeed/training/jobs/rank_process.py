"""A rank as a process: its output goes to a bounded log, and its children end with it."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from trainfeed.core.child_processes import ChildProcess, poll
from trainfeed.errors import StorageError
from trainfeed.files import os_errors

# --- The log file of a rank, of bounded size: a long log loses its middle, not its ends

MAX_BYTES: Final = 16 << 20
# Bytes that are kept at the beginning, and at the end, when the log becomes too large.
_HEAD_BYTES: Final = 256 << 10
_TAIL_BYTES: Final = 8 << 20
_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class BoundedLog:
    """A file that takes any number of bytes and never has more than 16 MiB.

    Args:
        path: The file; earlier content is removed.

    Raises:
        StorageError: The file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with os_errors(path):
            self._descriptor = os.open(path, _OPEN, 0o644)
        self._size = 0
        self._num_left_out = 0

    def write(self, data: bytes) -> None:
        """Append bytes; a file that becomes too large first loses its middle.

        Raises:
            StorageError: The file system refused.
        """
        with os_errors(self._path):
            if self._size + len(data) > MAX_BYTES:
                self._shorten()
            self._write_at(data, self._size)
        self._size += len(data)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write_at(self, data: bytes, place: int) -> None:
        # A disk that fills takes a part without an error.
        while data:
            written = os.pwrite(self._descriptor, data, place)
            data, place = data[written:], place + written

    def _shorten(self) -> None:
        # Layout afterwards: first 256 KiB, a note with the number of lost bytes, last 8 MiB. The
        # head keeps its place, so an earlier note lies in the part that is removed.
        tail = os.pread(self._descriptor, _TAIL_BYTES, self._size - _TAIL_BYTES)
        self._num_left_out += self._size - _HEAD_BYTES - len(tail)
        note = f"\n… {self._num_left_out} bytes of this log were left out here …\n".encode()
        start = _HEAD_BYTES + len(note)
        self._write_at(note + tail, _HEAD_BYTES)
        self._size = start + len(tail)
        os.ftruncate(self._descriptor, self._size)


# --- A rank as a process: its output goes to a bounded log, and its children end with it

_CHUNK_BYTES: Final = 1 << 16
# Environment variable with "<job's folder>:<rank>"; children inherit it.
_MARK: Final = "TRAINFEED_RANK_OF"
# Longest time in seconds from SIGKILL until a process is gone.
_GONE_S: Final = 5.0

Echo = Callable[[bytes], object]

logger = logging.getLogger(__name__)


class RankProcess(ChildProcess):
    """A running rank; call ``end`` once to release its process, thread and descriptors.

    Args:
        command: Program and arguments.
        home: The job's folder, which is the working directory of the rank.
        rank: Number of the rank.
        environment: All variables of the process; none are inherited.
        log: The file of its output; earlier content is removed.
        echo: Called with each piece of the output, in another thread.

    Raises:
        OSError: The process cannot be started or watched; no process and no descriptor stays.
        StorageError: The log cannot be created.
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
        with ExitStack() as undo:
            undo.callback(self._log.close)
            reading, writing = os.pipe()
            undo.callback(os.close, reading)
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
            finally:
                os.close(writing)
            undo.callback(self._process.wait)
            undo.callback(self._process.kill)
            super().__init__(self._process.pid)
            undo.callback(self.release)
            # Closing ``_stop`` ends the thread. The end of the output cannot: a child of the rank
            # may hold the write end of that pipe open for ever.
            self._stopping, self._stop = os.pipe()
            undo.pop_all()
        self._pump = threading.Thread(target=self._copy, args=(reading,), daemon=True)
        self._pump.start()

    @property
    def status(self) -> int | None:
        """Exit status, or the negative number of a signal; None while the rank runs.

        The process is not reaped, so its id cannot be given to another process before ``end``.
        """
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def terminate(self) -> None:
        """Send SIGTERM to the rank and its process group."""
        self._signal_group(signal.SIGTERM)

    def end(self, grace_s: float) -> int:
        """Wait for the end of the rank, kill its children, and complete the log.

        Args:
            grace_s: Seconds that the rank may take to end by itself; then it is killed.

        Returns:
            Exit status, or the negative number of a signal.
        """
        wait_for_end([self], grace_s)
        _kill_marked(self._mark)
        # The rank is not reaped yet, so its process id and group id cannot belong to others.
        self._signal_group(signal.SIGKILL)
        status = self._process.wait()
        os.close(self._stop)
        self._pump.join()
        os.close(self._stopping)
        self.release()
        if self._log is not None:
            self._log.close()
        return status

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

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
        """Copy the next piece of the output; return False at its end."""
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
            # Reading goes on without the log: a rank whose pipe is full would wait for ever.
            logger.warning("the log of the rank ends here, and the rank goes on: %s", error)
            self._log.close()
            self._log = None


def wait_for_end(ranks: Sequence[RankProcess], timeout_s: float | None = None) -> list[RankProcess]:
    """Wait until one of ``ranks`` has ended, and return all that have.

    Args:
        ranks: Ranks that run, or have ended and are not released.
        timeout_s: Longest wait in seconds, after which the list may be empty; None waits for ever.
    """
    with selectors.DefaultSelector() as selector:
        for rank in ranks:
            selector.register(rank, selectors.EVENT_READ, rank)
        return [key.data for key, _ in selector.select(timeout_s)]


def end_leftovers(home: Path) -> None:
    """Kill processes of the job's ranks that outlived a killed launcher.

    The caller holds the lock of the job's folder, so no other launcher runs these ranks.
    """
    _kill_marked(f"{home}:")


def _kill_marked(mark: str) -> None:
    """Kill the processes whose environment has the mark, until none is left."""
    # Repeated, because a process may fork between the listing and its death.
    deadline_s = time.monotonic() + _GONE_S
    while left := list(_marked(mark)):
        if time.monotonic() > deadline_s:
            logger.warning("processes %s were killed and are not gone", left)
            return
        for pid in left:
            _kill(pid, deadline_s)


def _kill(pid: int, deadline_s: float) -> None:
    """Kill a process, and wait until it is gone, at most until ``deadline_s``."""
    # A pidfd names this process, also if its id is given to another one meanwhile.
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        poll([process], max(0.0, deadline_s - time.monotonic()))
    finally:
        os.close(process)


def _marked(mark: str) -> Iterator[int]:
    """Yield the ids of the running processes of this account whose environment has the mark."""
    entry = f"\0{_MARK}={mark}".encode()
    for path in Path("/proc").iterdir():
        if path.name.isdecimal() and path.name != str(os.getpid()):
            # OSError: the process has ended, or belongs to another account.
            with suppress(OSError):
                if _has(b"\0" + (path / "environ").read_bytes(), entry):
                    yield int(path.name)


def _has(environment: bytes, entry: bytes) -> bool:
    # A mark that ends with ":" stands for all ranks of a job; any other one must match whole.
    return entry in environment if entry.endswith(b":") else entry + b"\0" in environment
