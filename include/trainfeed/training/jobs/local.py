"""The launcher ``local``: the ranks of a job as processes of this machine, all or none."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import trainfeed
from trainfeed.core.config import JOB_CODE, JOB_ROOT, training_environ
from trainfeed.errors import JobFailedError, JobKilledError, JobRejectedError, LaunchError
from trainfeed.training.jobs.job_file import JobRoots, JobSpec
from trainfeed.training.jobs.rank_process import RankProcess, end_leftovers, wait_for_end
from trainfeed.training.jobs.record import JobRecord
from trainfeed.training.jobs.states import REJECTED, RETRYABLE, JobLook, JobState
from trainfeed.versions.bucket_root import bucket_mark

# --- The error that a failed rank means for its job: run it again, or change the code

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


# --- The launcher ``local``: the ranks of a job as processes of this machine, all of them or none

_RUNTIME: Final = "trainfeed.training.runtime"
_GRACE_S: Final = 10.0


@dataclass(frozen=True)
class LocalLauncher:
    """Runs jobs as processes of this machine.

    Attributes:
        roots: The folders in which the ranks find versions and code.
    """

    kind: ClassVar[str] = "local"
    roots: JobRoots

    def start(self, job: JobSpec, home: Path) -> JobLook:
        """Run all ranks of ``job`` and wait for them; the first one that fails ends the others.

        Args:
            job: The job.
            home: The job's folder, which holds the job file and gets logs, result and output.

        Raises:
            JobFailedError: The code of a rank failed; or all ranks ended well without a result.
            JobKilledError: A rank was killed, or met a passing fault.
            JobRejectedError: A rank refused the job.
        """
        record = JobRecord(home)
        try:
            self._run(job, record)
        except BaseException:
            # Rank 0 may have written the result before another rank failed.
            record.discard_result()
            raise
        if record.result() is None:
            raise JobFailedError(
                f"job {job.name} ended without metrics; see {record.log(0)}; run the training again"
                " (in Airflow: clear the task)"
            )
        return self.look(record)

    def look(self, record: JobRecord) -> JobLook:
        """Return ``SUCCEEDED`` if the job has a result, else ``UNKNOWN``.

        Running ranks are known only to the process that launched them.
        """
        if record.result() is None:
            return JobLook(JobState.UNKNOWN, "it has no result, and may be running")
        return JobLook(JobState.SUCCEEDED)

    def render(self, job: JobSpec, home: Path) -> Sequence[dict[str, Any]]:
        """Return the job file, and start nothing."""
        return [{**job.to_json(), "home": str(home)}]

    def _run(self, job: JobSpec, record: JobRecord) -> None:
        end_leftovers(record.home)
        ranks: list[RankProcess] = []
        first = None
        try:
            for rank in range(job.ranks):
                # Appended one by one: if one rank cannot be started, ``finally`` ends the others.
                ranks.append(_start(job, record, rank, self.roots))  # noqa: PERF401
            first = _first_bad_end(ranks)
        finally:
            ended = _end(record, ranks)
        if first is not None:
            raise ended_error(job, next(filter(_is_killed, ended.values()), ended[first]))


def _start(job: JobSpec, record: JobRecord, rank: int, roots: JobRoots) -> RankProcess:
    command = [sys.executable, "-m", _RUNTIME, str(record.home), str(rank), str(os.getpid())]
    package = str(Path(trainfeed.__file__).parent.parent)
    places = {JOB_ROOT: str(roots.root), JOB_CODE: str(roots.code)}
    # It reads its versions where the root is.
    with_keys = roots.root is not None and bucket_mark(roots.root) is not None
    environment = training_environ(package, {**job.environment, **places}, with_keys=with_keys)
    return RankProcess(
        command, home=record.home, rank=rank, environment=environment, log=record.log(rank)
    )


def _first_bad_end(ranks: list[RankProcess]) -> int | None:
    """Wait for all ranks, or for the first one that fails; return its number, or None."""
    running = dict(enumerate(ranks))
    while running:
        ended = wait_for_end(list(running.values()))
        for rank in [rank for rank, process in running.items() if process in ended]:
            if running.pop(rank).status != 0:
                return rank
    return None


def _end(record: JobRecord, ranks: list[RankProcess]) -> dict[int, Ended]:
    """End all ranks; return the ends of those that had ended by themselves before, by number."""
    # Ranks that this call terminates show its SIGTERM: only the others can tell the cause.
    by_themselves = [rank for rank, process in enumerate(ranks) if process.status is not None]
    for process in ranks:
        process.terminate()
    deadline_s = time.monotonic() + _GRACE_S
    statuses = [process.end(max(0.0, deadline_s - time.monotonic())) for process in ranks]
    return {rank: Ended(rank, statuses[rank], record.log(rank)) for rank in by_themselves}


def _is_killed(ended: Ended) -> bool:
    return ended.is_killed
