"""Worker processes, one by one: started, prepared, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from multiprocessing import Pipe, spawn
from multiprocessing.connection import Connection
from typing import Any, Final

from trainfeed.errors import ConfigError
from trainfeed.loader.workers._messages import IMPORTING_MAIN, Question
from trainfeed.process_ties import is_stopped, program

__all__ = ["Worker", "end_workers", "preparation", "require_not_importing", "start_worker"]

_PROGRAM: Final = "trainfeed.loader.workers._worker_loop"
_END_S: Final = 1.0


@dataclass
class Worker:
    """One worker process.

    Attributes:
        process: The process.
        connection: The loader's end of the connection.
        pidfd: Becomes readable when the process ends.
        unanswered: The questions that the process has not answered yet, by number.
        has_ended: Whether the process was reported as ended, which happens once.
    """

    process: subprocess.Popen[bytes]
    connection: Connection
    pidfd: int
    unanswered: dict[int, Question] = field(default_factory=dict)
    has_ended: bool = False

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped the process."""
        return is_stopped(self.process.pid)


def start_worker(memory_fd: int) -> Worker:
    """Start a process that serves slots of shared memory.

    Args:
        memory_fd: Descriptor of the memory; the process gets a copy of it.
    """
    ours, theirs = Pipe()
    in_main = threading.current_thread() is threading.main_thread()
    arguments = [theirs.fileno(), memory_fd, os.getpid(), "main" if in_main else "other"]
    # Ctrl-C reaches all processes of the terminal. A worker that is still starting does not ignore
    # the signal yet, so it inherits a mask that blocks it until then.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            program(_PROGRAM, arguments, os.fsdecode(spawn.get_executable() or "")),
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno(), memory_fd],
        )
    except BaseException:
        ours.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
    return Worker(process, ours, os.pidfd_open(process.pid))


def end_workers(workers: list[Worker], owner: int) -> None:
    """Close the connections, which lets workers exit; kill those that do not."""
    for worker in workers:
        worker.connection.close()
    if os.getpid() != owner:
        return
    end_s = time.monotonic() + _END_S
    for worker in workers:
        try:
            worker.process.wait(max(0.0, end_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
        os.close(worker.pidfd)
    workers.clear()


def preparation(payload: bytes) -> dict[str, Any]:
    """Return the data for importing the main program, if the dataset is defined there."""
    if b"__main__" not in payload:
        return {}
    if sys.modules["__main__"].__dict__.get("__file__") is None:
        raise ConfigError(
            "the dataset's class is defined in an interactive session, which worker processes"
            " cannot import; put it into a module, or use num_threads"
        )
    wanted = ("name", "sys_argv", "dir", "init_main_from_name", "init_main_from_path")
    found = spawn.get_preparation_data("trainfeed-loader")
    return {name: found[name] for name in wanted if name in found}


def require_not_importing() -> None:
    """Refuse to start a process while a worker imports the main program.

    Raises:
        ConfigError: This process is such a worker.
    """
    if IMPORTING_MAIN.is_set():
        raise ConfigError(
            "a worker process imports the main program, because the dataset's class is defined"
            " there, and the main program must not start a loader while it is imported; put what"
            " the program does below"
            ' if __name__ == "__main__":, or the class into a module'
        )
