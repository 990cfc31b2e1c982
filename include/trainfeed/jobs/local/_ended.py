"""The error that a failed rank means for its job: run it again, or change the code.

A rank that was killed is not at fault: memory ran out, a machine went down, an operator stopped it.
A rank that ended by itself is at fault: its own code raised, or crashed.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainfeed.errors import JobFailedError, JobKilledError, JobRejectedError, LaunchError
from trainfeed.jobs._job_spec import JobSpec
from trainfeed.jobs._rank_status import REJECTED, RETRYABLE

__all__ = ["Ended", "ended_error"]

_TAIL_BYTES: Final = 2000
# Signals that other processes send. Each text continues the sentence "ended by SIGKILL: …".
_FROM_OUTSIDE: Final = {
    signal.SIGKILL: "killed; as a rule the kernel's, because memory ran out ('dmesg' names the"
    " process), or that of the operator of the machine or container",
    signal.SIGTERM: "asked to end, by an operator, a container manager or a machine going down",
    signal.SIGINT: "interrupted, as by Ctrl-C",
    signal.SIGHUP: "its terminal was closed",
    signal.SIGQUIT: "asked to end, as by Ctrl-\\",
    signal.SIGXCPU: "its limit of processor time was reached",
}
# Signals that the code of a process causes itself.
_FROM_INSIDE: Final = {
    signal.SIGSEGV: "native code touched memory that is not its own",
    signal.SIGABRT: "native code gave up",
    signal.SIGFPE: "native code calculated what cannot be, as a division by zero",
    signal.SIGILL: "native code that was built for another processor",
    signal.SIGBUS: "mapped memory lost what is behind it: a full /dev/shm, or a file that was cut",
    signal.SIGPIPE: "it wrote to a pipe that nothing reads any more",
    signal.SIGXFSZ: "its limit of file size was reached",
}


@dataclass(frozen=True)
class Ended:
    """A rank that has ended.

    Attributes:
        rank: Number of the rank.
        status: Exit status, or the negative number of a signal, as in ``subprocess``.
        log: The file of its output.
    """

    rank: int
    status: int
    log: Path

    @property
    def is_killed(self) -> bool:
        """Whether a signal from outside ended it."""
        return -self.status in _FROM_OUTSIDE


def ended_error(job: JobSpec, ended: Ended) -> LaunchError:
    """Return the error of a job one of whose ranks failed.

    Args:
        job: The job.
        ended: The rank; its status is not 0.

    Returns:
        ``JobRejectedError`` when the rank refused the job, ``JobKilledError`` when another attempt
        may succeed, else ``JobFailedError``.
    """
    tail = _tail(ended.log)
    what = f"job {job.name}, rank {ended.rank}"
    if ended.status == REJECTED:
        return JobRejectedError(f"{what}: {tail.rpartition(chr(10))[2]}")
    kept = f"log {ended.log}; the versions it read are untouched"
    if ended.is_killed:
        return JobKilledError(
            f"{what} was ended by {_signal(ended)}; {kept}; run it again (a scheduler does by"
            f" itself); if it goes on, give it more memory, or fewer ranks:\n{tail}"
        )
    if ended.status == RETRYABLE:
        return JobKilledError(
            f"{what} met an error that may pass; {kept}; run it again (a scheduler does by"
            f" itself):\n{tail}"
        )
    how = _signal(ended) if ended.status < 0 else f"status {ended.status}"
    return JobFailedError(
        f"job {job.name} failed: rank {ended.rank} ended with {how}; {kept}; fix {job.entry} and"
        f" run the training again (in Airflow: clear the task):\n{tail}"
    )


def _signal(ended: Ended) -> str:
    number = -ended.status
    meaning = {**_FROM_OUTSIDE, **_FROM_INSIDE}.get(number)  # type: ignore[call-overload]
    try:
        name = f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
    return f"{name}: {meaning}" if meaning else name


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        text = file.read().decode(errors="replace").strip()
    return text or "(the log is empty: the rank wrote nothing before it ended)"
