"""The parent's side of a worker process: starts it, sends jobs, watches it, ends it."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import subprocess
import time
import uuid
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainfeed.config import worker_environ
from trainfeed.pipeline.workers._family import VARIABLE, Family
from trainfeed.pipeline.workers._worker_protocol import (
    PROGRESS_BYTES,
    STACK_SIGNAL,
    JobReport,
    WorkerPlace,
    WorkerReport,
)
from trainfeed.process_ties import program

if TYPE_CHECKING:
    from trainfeed.pipeline.workers._worker_job import Job

__all__ = ["WorkerProcess"]

logger = logging.getLogger(__name__)
# A separate logger, so that the output of functions can be selected.
_printed = logging.getLogger("trainfeed.printed")

_PROGRAM: Final = "trainfeed.pipeline.workers._worker_main"
_GRACE_S: Final = 5.0
_STACK_S: Final = 5.0
_STACK_BEGIN: Final = "(most recent call first):\n"
_STACK_END: Final = b"in <module>\n"
# In a stack, the first frame of trainfeed: the frames of the user's code come before it.
_OUR_FRAME: Final = f'  File "{Path(__file__).parent.with_name("functions") / "_user_function.py"}'
_READ_BYTES: Final = 64 << 10
# Limits for the output of functions: in the log per job, and in an error.
_MAX_LOGGED_BYTES: Final = 64 << 10
_MAX_SHOWN_BYTES: Final = 2000


class WorkerProcess:
    """A worker process. Ending it ends all processes that its functions have started.

    Attributes:
        place: Position of its function.
        is_idle: Whether the worker waits for a job.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        progress = os.memfd_create("trainfeed-progress")
        token = uuid.uuid4().hex
        # Leaving the block closes ``theirs``, so that the worker's end ends the channel, and
        # ``progress``, whose memory stays mapped. ``ours`` is detached before that, and stays open.
        with ExitStack() as files:
            files.enter_context(ours)
            files.enter_context(theirs)
            files.callback(os.close, progress)
            os.ftruncate(progress, PROGRESS_BYTES)
            arguments = (theirs.fileno(), progress, os.getpid())
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                program(_PROGRAM, arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(), progress),
                env={**worker_environ(), VARIABLE: token},
                process_group=0,
            )
            self._pidfd = os.pidfd_open(self._process.pid)
            self._family = Family(self._process.pid, token)
            self.place = WorkerPlace(progress)
            self._connection = Connection(ours.detach())
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        self._output = self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._tail = b""
        self._num_printed = 0
        self._label = ""
        self._ends = False
        self.is_idle = True

    @property
    def channel(self) -> int:
        """Descriptor that becomes readable when a report arrives or the worker has died."""
        return self._connection.fileno()

    @property
    def output(self) -> int:
        """Descriptor that becomes readable when the worker has printed something."""
        return self._output.fileno()

    @property
    def was_told_to_end(self) -> bool:
        """Whether this process has ended the worker."""
        return self._ends

    @property
    def is_alive(self) -> bool:
        """Whether the worker can take a job."""
        # A worker that was told to end may still be there for a moment.
        return not self._ends and not self._has_ended()

    def submit(self, job: Job[object]) -> None:
        """Send a job; one at a time.

        Raises:
            OSError: The worker has died.
        """
        self._tail, self._num_printed, self._label = b"", 0, job.label
        self.is_idle = False
        self._connection.send(job)

    def rest(self) -> None:
        """Make an idle worker return its free memory to the system."""
        with suppress(OSError):
            self._connection.send(None)

    def receive(self) -> WorkerReport | None:
        """Return the next report, or None if the worker has died without one."""
        try:
            report: WorkerReport = self._connection.recv()
        except (EOFError, OSError):
            return None
        self.is_idle = isinstance(report, JobReport)
        return report

    def read_output(self) -> bool:
        """Log the worker's output since the last call, up to a bound per job.

        Returns:
            False if the worker has closed its output or ended, else True.
        """
        while True:
            try:
                data = os.read(self.output, _READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._tail = (self._tail + data)[-_MAX_SHOWN_BYTES:]
            # Bytes that may still be logged for this job.
            room = _MAX_LOGGED_BYTES - self._num_printed
            self._num_printed += len(data)
            if room > 0:
                text = data[:room].decode(errors="replace").rstrip()
                _printed.info("%s printed: %s", self._label, text)
            if len(data) > room > 0:
                _printed.warning("%s prints too much; the rest is not logged", self._label)

    def printed(self) -> str:
        """Return the end of the worker's output during the job."""
        self.read_output()
        return self._tail.decode(errors="replace").strip()

    def stack(self) -> str:
        """Return the innermost Python frames of a function that does not return."""
        self.read_output()
        with suppress(OSError):
            self._process.send_signal(STACK_SIGNAL)
        text = b""
        # ``poll``, because ``select`` refuses descriptors above 1023.
        more = select.poll()
        more.register(self.output, select.POLLIN)
        deadline = time.monotonic() + _STACK_S
        while _STACK_END not in text and time.monotonic() < deadline:
            if not more.poll(1000 * _STACK_S):
                break
            data = os.read(self.output, _READ_BYTES)
            if not data:
                break
            text = (text + data)[-_READ_BYTES:]
        # The output may have other text before the stack; the last mark begins the stack.
        _, _, frames = text.decode(errors="replace").rpartition(_STACK_BEGIN)
        own, _, _ = frames.partition(_OUR_FRAME)
        return own[:_MAX_SHOWN_BYTES].rstrip()

    def rss_bytes(self) -> int:
        """Return the bytes of the worker and of the processes it started; 0 if it is gone."""
        return self._family.memory_bytes()

    def wait(self) -> int:
        """Return the exit status, negative for a signal; call it after the channel has closed."""
        if not self._has_ended(_GRACE_S):
            self.kill()
            return -signal.SIGKILL
        self._end_family()
        return self._process.wait()

    def interrupt(self) -> None:
        """End the worker at once; its owner still has to release it with ``kill``."""
        self._ends = True
        self._end_family()

    def kill(self) -> None:
        """End the worker at once and release its descriptors; safe to call twice."""
        self.interrupt()
        self._process.wait()
        self._close()

    def forget(self) -> None:
        """Release the descriptors in a forked child, without touching the worker itself."""
        self._process.returncode = 0
        self._close()

    def _has_ended(self, timeout_s: float = 0.0) -> bool:
        """Return whether the worker ends within a time; does not reap it."""
        end = select.poll()
        end.register(self._pidfd, select.POLLIN)
        return bool(end.poll(1000 * timeout_s))

    def _end_family(self) -> None:
        # After it was reaped, its id may belong to another process group.
        if self._process.returncode is None:
            self._family.end()

    def _close(self) -> None:
        if self._connection.closed:
            return
        os.close(self._pidfd)
        self._connection.close()
        self._output.close()
        self.place.close()
