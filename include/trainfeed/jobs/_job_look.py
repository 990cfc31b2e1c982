"""What a launcher says of a job at one moment, and what is written down of its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trainfeed.jobs._job_state import JobState

__all__ = ["JobLook", "RankLook"]


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
        is_rejected: Whether a rank refused the job, which then is none that it may run.
    """

    state: JobState
    reason: str = ""
    ranks: tuple[RankLook, ...] = ()
    is_rejected: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> JobLook:
        """Return what ``to_json`` gave.

        Raises:
            KeyError: A member is missing.
            ValueError: A state is none.
        """
        ranks = (RankLook(r["rank"], JobState(r["state"]), r["reason"]) for r in value["ranks"])
        state, rejected = JobState(value["state"]), value["is_rejected"] is True
        return cls(state, str(value["reason"]), tuple(ranks), is_rejected=rejected)
