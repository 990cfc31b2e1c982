"""The launcher ``local``: the ranks of a job as processes of this machine, all of them or none.

Whatever launches holds the lock of the job's folder; the ranks end with it. So there is never a
local job that could be adopted while it runs: a next launch waits, or runs the job itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final

import trainfeed
from trainfeed.config import JOB_CODE, JOB_ROOT, training_environ
from trainfeed.dataset import canonical
from trainfeed.errors import JobFailedError
from trainfeed.jobs._job_look import JobLook
from trainfeed.jobs._job_record import JobRecord
from trainfeed.jobs._job_roots import JobRoots
from trainfeed.jobs._job_spec import JobSpec
from trainfeed.jobs._job_state import JobState
from trainfeed.jobs.local._ended import Ended, ended_error
from trainfeed.paths import open_emptied

__all__ = ["LocalLauncher"]

_RUNTIME: Final = "trainfeed.training.runtime"
_POLL_S: Final = 0.2
_GRACE_S: Final = 10.0


@dataclass(frozen=True)
class LocalLauncher:
    """Runs jobs as processes of this machine.

    Attributes:
        roots: Where the ranks find versions and code.
    """

    kind: ClassVar[str] = "local"
    roots: JobRoots

    def start(self, job: JobSpec, home: Path) -> JobLook:
        """Run every rank of ``job`` and wait for all.

        Args:
            job: The job.
            home: Its folder, which holds the job file and gets logs, result and output.

        Raises:
            JobFailedError: A rank failed by its own code, the others were ended; or all ended well
                and left no result.
            JobKilledError: A rank was killed, or met what may pass; the others were ended.
            JobRejectedError: A rank found the job to be none that it may run, or none that it can.
        """
        record = JobRecord(home)
        try:
            self._run(job, record)
        except BaseException:
            # Rank 0 may have ended well before another one failed.
            record.discard_result()
            raise
        if record.result() is None:
            raise JobFailedError(
                f"job {job.name} ended without metrics; see {record.log(0)}; run the training again"
                " (in Airflow: clear the task)"
            )
        return self.look(record)

    def look(self, record: JobRecord) -> JobLook:
        """Say whether the job has a result; what runs is known to its launch alone."""
        if record.result() is None:
            return JobLook(JobState.UNKNOWN, "it has no result, and may be running")
        return JobLook(JobState.SUCCEEDED)

    def render(self, job: JobSpec, home: Path) -> Sequence[dict[str, Any]]:
        """Return the job file, and start nothing."""
        return [{**canonical.loads(job.to_bytes()), "home": str(home)}]

    def _run(self, job: JobSpec, record: JobRecord) -> None:
        with ExitStack() as stack:
            files = [
                stack.enter_context(open_emptied(record.log(rank))) for rank in range(job.ranks)
            ]
            ranks: list[subprocess.Popen[bytes]] = []
            try:
                for rank, log in enumerate(files):
                    ranks.append(_start(job, record, rank, log, self.roots))
                _wait(job, record, ranks)
            finally:
                _end(ranks)


def _start(
    job: JobSpec, record: JobRecord, rank: int, log: BinaryIO, roots: JobRoots
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", _RUNTIME, str(record.home), str(rank), str(os.getpid())]
    package = str(Path(trainfeed.__file__).parent.parent)
    places = {JOB_ROOT: str(roots.root), JOB_CODE: str(roots.code)}
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=record.home,
        env=training_environ(package, {**job.environment, **places}),
    )


def _wait(job: JobSpec, record: JobRecord, ranks: list[subprocess.Popen[bytes]]) -> None:
    running = dict(enumerate(ranks))
    while running:
        for rank, process in list(running.items()):
            try:
                status = process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                continue
            if status != 0:
                raise ended_error(
                    job, _cause(record, running, Ended(rank, status, record.log(rank)))
                )
            del running[rank]


def _cause(record: JobRecord, running: dict[int, subprocess.Popen[bytes]], first: Ended) -> Ended:
    """Return the rank that others failed for: the one that was killed, if there is one."""
    found = [
        Ended(rank, status, record.log(rank))
        for rank, process in running.items()
        if (status := process.poll()) is not None
    ]
    return next((ended for ended in found if ended.is_killed), first)


def _end(ranks: list[subprocess.Popen[bytes]]) -> None:
    for process in ranks:
        process.terminate()
    for process in ranks:
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
