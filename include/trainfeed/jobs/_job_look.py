"""The state of a job and of its ranks, as a launcher sees it at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trainfeed.jobs._job_state import JobState

__all__ = ["JobLook", "RankLook"]


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
class JobLook:
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

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return asdict(self)

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
