"""The states of a job and of its ranks, equal for all launchers."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["JobState"]


class JobState(StrEnum):
    """The state of a job or of a rank.

    Attributes:
        WAITING: Accepted, but no rank runs: the job is queued or suspended, or no machine has room.
        STARTING: Machines are found; ranks are being started.
        RUNNING: Ranks run.
        SUCCEEDED: The result exists, and the job's files are those that the result lists.
        FAILED: The job's own code failed, or the job asked for something that it cannot have.
        KILLED: Ended from outside; another attempt may succeed.
        CANCELLED: Ended on purpose by a person or a scheduler.
        UNKNOWN: There is no result, and no job that could still write one.
    """

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def is_live(self) -> bool:
        """Whether a job in this state may still write a result."""
        return self in {JobState.WAITING, JobState.STARTING, JobState.RUNNING}
