"""The states of a job and of its ranks, equal for all launchers, and exit statuses of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from trainfeed.core.canonical_json import JsonFields

# --- The states of a job and of its ranks, equal for all launchers


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


# --- The state of a job and of its ranks, as a launcher sees it at one moment


@dataclass(frozen=True)
class RankLook:
    """The state of one rank.

    Attributes:
        rank: Number of the rank, from 0.
        state: State of the rank.
        reason: Reason of the state, for people; empty where none is known.
    """

    rank: int
    state: JobState
    reason: str = ""


@dataclass(frozen=True)
class JobLook(JsonFields):
    """The state of a job at one moment; the file of an ended attempt keeps the last one.

    Attributes:
        state: State of the job.
        reason: Reason of the state, for people; empty where none is known.
        ranks: The ranks that the launcher knows of.
        is_rejected: Whether a rank refused the job; another attempt of it would be refused, too.
    """

    state: JobState
    reason: str = ""
    ranks: tuple[RankLook, ...] = ()
    is_rejected: bool = False

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> JobLook:
        """Return the state from the JSON of ``to_json``.

        Raises:
            KeyError: A member is missing.
            ValueError: The name of a state is unknown.
        """
        ranks = (RankLook(r["rank"], JobState(r["state"]), r["reason"]) for r in value["ranks"])
        state, rejected = JobState(value["state"]), value["is_rejected"] is True
        return cls(state, str(value["reason"]), tuple(ranks), is_rejected=rejected)


# --- The exit statuses by which a rank tells its launcher whether another attempt makes sense

# Exit status of a rank that refuses its job; the last line of its log says why.
REJECTED: Final = 78
# Exit status of a rank that met a passing fault: a file system that was away, a killed worker.
RETRYABLE: Final = 75
# Exit status of a rank that was restarted more often than train.retries allows. Below 128, so that
# an operator that restarts ranks after signals does not restart this one.
EXHAUSTED: Final = 79
