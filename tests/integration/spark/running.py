"""A build on Spark in the background, and its processes: found by their states, not by time.

A Python worker stops itself at a point of ``trainfeed.core.faults``. While it is stopped, its task,
its stage and what its executor holds stay as they are, so a test can act on exactly that state.
"""

from __future__ import annotations

import os
import re
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from trainfeed.core.process_ties import is_stopped

EXECUTOR = b"CoarseGrainedExecutorBackend"
SUBMIT = b"org.apache.spark.deploy.SparkSubmit"
# No machine is that slow. A look goes over all processes, so there are few of them.
LIMIT_S = 900.0
LOOK_S = 0.2


def until(condition):
    """Wait until ``condition()`` is true; return what it gave."""
    deadline_s = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline_s, f"not within {LIMIT_S:g} s"
        time.sleep(LOOK_S)
    return found


def processes(folder, part=b""):
    """Processes with a folder in their variables and a part in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            has_folder = os.fsencode(folder) in (entry / "environ").read_bytes()
            if has_folder and part in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def stopped(folder):
    """Processes that have stopped themselves."""
    return [pid for pid in processes(folder) if is_stopped(pid)]


def parent(pid):
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text.rpartition(")")[2].split()[1])


def executor_of(pid):
    """The executor of a Python worker."""
    while EXECUTOR not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = parent(pid)
        assert pid > 1
    return pid


def shuffle_files(pid):
    """What the executor of a Python worker holds of the shuffle."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    (folders,) = (each for each in variables if each.startswith(b"SPARK_LOCAL_DIRS="))
    places = os.fsdecode(folders.partition(b"=")[2]).split(",")
    return [file for place in places for file in Path(place).rglob("shuffle_*")]


def send(pid, number):
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@dataclass(frozen=True)
class Running:
    """A build in a thread.

    Attributes:
        building: The build.
        folder: Stands in the variables of all processes of its application.
    """

    building: Future[object]
    folder: Path

    def until_stopped(self, number=1):
        """Wait until so many workers have stopped; return them."""
        until(lambda: self.building.done() or len(stopped(self.folder)) >= number)
        assert not self.building.done(), self.building.result()
        return stopped(self.folder)

    def until_told(self, caplog, pattern):
        """Wait until the application tells of a state."""
        until(lambda: self.building.done() or re.search(pattern, caplog.text))
        assert not self.building.done(), self.building.result()

    def finish(self):
        """Let all workers go on whenever they stop; return the report of the build."""
        until(lambda: self.building.done() or self._go_on())
        return self.building.result()

    def _go_on(self):
        for pid in stopped(self.folder):
            send(pid, signal.SIGCONT)
        return False


@contextmanager
def running(case, folder):
    """Build in a thread; whatever happens, the build comes to its end."""
    with ThreadPoolExecutor(1) as pool:
        found = Running(pool.submit(case.build), folder)
        try:
            yield found
        finally:
            with suppress(Exception):
                found.finish()
