"""The folder of a job: its job file, its attempts, its result.

::

    <root>/<dataset>/training/<interval>/<job>/
      job.json              the job, as its ranks read it: that of the newest attempt
      attempts/NNNN.json    one file per attempt of a cluster's job, written exclusively
      output/               models, and whatever else should stay
      rank-N.log            of local ranks
      result.json           written last, by rank 0
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainfeed.errors import NotFoundError
from trainfeed.jobs._job_result import OUTPUT_FOLDER, RESULT_FILE, JobResult
from trainfeed.jobs._job_spec import JOB_FILE, JobSpec
from trainfeed.storage import posix

__all__ = ["JobRecord"]


@dataclass(frozen=True)
class JobRecord:
    """What is kept of a job.

    Attributes:
        home: The job's folder.
    """

    home: Path

    @property
    def output(self) -> Path:
        """The folder of its models."""
        return self.home / OUTPUT_FOLDER

    def job(self) -> JobSpec:
        """Return the job.

        Raises:
            JobRejectedError: There is none, or the file is none.
        """
        return JobSpec.read(self.home / JOB_FILE)

    def write(self, job: JobSpec) -> None:
        """Make ``job`` the one that ranks read."""
        posix.replace_file(self.home / JOB_FILE, job.to_bytes())

    def result(self) -> JobResult | None:
        """Return the result, or None while there is none.

        Raises:
            FormatError: The file is no result.
        """
        try:
            return JobResult.read(self.home / RESULT_FILE)
        except NotFoundError:
            return None

    def log(self, rank: int) -> Path:
        """Return the file of a rank's own log."""
        return self.home / f"rank-{rank}.log"

    def discard_result(self) -> None:
        """Remove the result of a try that did not end well."""
        (self.home / RESULT_FILE).unlink(missing_ok=True)
