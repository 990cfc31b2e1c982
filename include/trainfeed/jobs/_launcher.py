"""What every launcher does for a job, and what it says of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trainfeed.jobs._job_record import JobRecord
from trainfeed.jobs._job_spec import JobSpec
from trainfeed.jobs._job_state import JobState

__all__ = ["JobLook", "Launcher", "RankLook"]


@dataclass(frozen=True)
class RankLook:
    """What is known of one rank.

    Attributes:
        rank: Its number.
        state: Where it stands.
        reason: Why, in words; empty when there is nothing to say.
    """

    rank: int
    state: JobState
    reason: str = ""


@dataclass(frozen=True)
class JobLook:
    """What a launcher says of a job at one moment.

    Attributes:
        state: Where the job stands.
        reason: Why, in words; empty when there is nothing to say.
        ranks: Those that the launcher knows of.
    """

    state: JobState
    reason: str = ""
    ranks: tuple[RankLook, ...] = ()


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

    def cancel(self, record: JobRecord) -> None:
        """End a job on purpose; fine if it has ended."""

    def logs(self, record: JobRecord, *, rank: int, max_bytes: int) -> str:
        """Return the end of a rank's log, at most ``max_bytes`` of it."""

    def render(self, job: JobSpec, home: Path) -> Sequence[dict[str, Any]]:
        """Return what ``start`` would make, and make nothing."""
