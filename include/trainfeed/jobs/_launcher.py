"""What every launcher does for a job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from trainfeed.jobs._job_look import JobLook
from trainfeed.jobs._job_record import JobRecord
from trainfeed.jobs._job_spec import JobSpec

__all__ = ["Launcher"]


class Launcher(Protocol):
    """Starts jobs of one kind, at one place.

    Attributes:
        kind: As ``train.launcher`` has it.
    """

    kind: str

    def start(self, job: JobSpec, home: Path) -> JobLook:
        """Start a job, or adopt the one of its name and identity; never two of them.

        Args:
            job: The job; its ``attempt`` says which try this is.
            home: Its folder, which exists.

        Raises:
            LaunchError: The launcher refused or failed.
        """

    def look(self, record: JobRecord) -> JobLook:
        """Say where a job stands, without changing anything."""

    def render(self, job: JobSpec, home: Path) -> Sequence[dict[str, Any]]:
        """Return what ``start`` would make, and make nothing."""
