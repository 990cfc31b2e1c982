"""The states of a job: one table for all launchers."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["JobState"]


class JobState(StrEnum):
    """Where a job stands.

    Attributes:
        WAITING: Accepted, and nothing of it runs: it is in a queue or suspended, or no machine has
            room for it.
        STARTING: Machines are found; ranks are being started.
        RUNNING: Ranks run.
        SUCCEEDED: Its result is there, and its files are those that the result lists.
        FAILED: Its own code, or what it asked for, made it fail.
        KILLED: It was ended from outside; another attempt may end otherwise.
        CANCELLED: A person or a scheduler ended it on purpose.
        UNKNOWN: Neither a result nor a job that could still make one is there.
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
        """Whether a job in this state may still make a result."""
        return self in {JobState.WAITING, JobState.STARTING, JobState.RUNNING}
