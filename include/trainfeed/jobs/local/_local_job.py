"""The launcher ``local``: the ranks of a job as processes of this machine, all of them or none.

The launching process holds the lock of the job's folder, and the ranks end with that process. So no
local job is ever adopted while it runs: a second launch waits for the lock, and then finds the
result or runs the job itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import trainfeed
from trainfeed.config import JOB_CODE, JOB_ROOT, training_environ
from trainfeed.errors import JobFailedError
from trainfeed.jobs._job_look import JobLook
from trainfeed.jobs._job_record import JobRecord
from trainfeed.jobs._job_roots import JobRoots
from trainfeed.jobs._job_spec import JobSpec
from trainfeed.jobs._job_state import JobState
from trainfeed.jobs._rank_process import RankProcess, end_leftovers, wait_for_end
from trainfeed.jobs.local._ended import Ended, ended_error

__all__ = ["LocalLauncher"]

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
    environment = training_environ(package, {**job.environment, **places})
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
