"""The two folders below which the paths of a job file lie, for the present process.

A job file is read on machines that mount the publication root at different places, so it holds
relative paths, and each launcher gives its ranks the two folders in environment variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainfeed.config import job_places
from trainfeed.errors import JobRejectedError

if TYPE_CHECKING:
    from trainfeed.jobs._job_spec import JobSpec, JobVersion

__all__ = ["JobRoots"]


@dataclass(frozen=True)
class JobRoots:
    """The folders that the relative paths of job files start from.

    Attributes:
        root: The publication root, for versions; None when it is not known.
        code: The folder of the data set's code; None when it is not known.
    """

    root: Path | None
    code: Path | None

    @classmethod
    def from_environ(cls) -> JobRoots:
        """Return the roots that ``TRAINFEED_JOB_ROOT`` and ``TRAINFEED_JOB_CODE`` name."""
        root, code = job_places()
        return cls(root, code)

    def version(self, version: JobVersion) -> Path:
        """Return the folder of a version.

        Raises:
            JobRejectedError: The path is relative, and the root is not known.
        """
        return _below(self.root, version.path, "TRAINFEED_JOB_ROOT")

    def folder(self, job: JobSpec) -> Path:
        """Return the folder of the job's code.

        Raises:
            JobRejectedError: The path is relative, and the folder of the code is not known.
        """
        return _below(self.code, job.folder, "TRAINFEED_JOB_CODE")


def _below(root: Path | None, path: str, variable: str) -> Path:
    if Path(path).is_absolute():
        return Path(path)  # a job file of an earlier version
    if root is None:
        raise JobRejectedError(
            f"expected {variable} to name the folder that {path!r} lies in, it is not set; nothing"
            " was run; start the rank by a launcher of trainfeed, or set the variable"
        )
    return root / path
