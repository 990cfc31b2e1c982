"""The interface of all launchers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from trainfeed.jobs._job_look import JobLook
from trainfeed.jobs._job_record import JobRecord
from trainfeed.jobs._job_spec import JobSpec

__all__ = ["Launcher"]


class Launcher(Protocol):
    """Starts jobs of one kind, on this machine or on one cluster.

    Attributes:
        kind: Kind of the launcher, a value of ``train.launcher``.
    """

    kind: str

    def start(self, job: JobSpec, home: Path) -> JobLook:
        """Start a job, or adopt the running one of the same name and identity.

        Args:
            job: The job; ``job.attempt`` is the number of the attempt.
            home: The job's folder, which exists.

        Raises:
            LaunchError: The launcher refused or failed.
        """

    def look(self, record: JobRecord) -> JobLook:
        """Return the state of a job; nothing is changed."""

    def render(self, job: JobSpec, home: Path) -> Sequence[dict[str, Any]]:
        """Return the objects that ``start`` would make, and make none of them."""
