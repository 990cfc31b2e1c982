"""The report about outdated versions of a data set: intervals, causes, and cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from trainfeed.dataset.layout import generation_name
from trainfeed.outdated._forward_cost import Cost, TotalCost
from trainfeed.outdated._source_finding import SourceFinding
from trainfeed.pipeline.planner import Cause

__all__ = ["CauseCount", "IntervalFinding", "OutdatedReport", "State"]

State: TypeAlias = Literal[
    "current", "outdated", "unfinished", "unscheduled", "unreadable", "withdrawn", "removed"
]


@dataclass(frozen=True)
class IntervalFinding:
    """One interval.

    Attributes:
        interval: Name of the interval.
        state: ``current``: a build of now would make this version; ``outdated``: another one;
            ``unfinished``: this one, but readers still get an earlier generation, because its
            publication was killed before the last step, which the next build does;
            ``unscheduled``: no tick of today's schedule has this interval, so nothing can build it
            again; ``unreadable``: its manifest cannot be used; ``withdrawn``: a build
            would make a withdrawn version again, and is refused, or none is left besides withdrawn
            ones; ``removed``: every generation was removed.
        generation: The newest generation, which a build compares with; None if there is none.
        causes: Why it is outdated.
        reason: Why it is in another state than ``current`` and ``outdated``; else empty.
        cost: The cost of building it again; None if it is not outdated.
        source: The comparison with the source; None without one.
    """

    interval: str
    state: State
    generation: int | None = None
    causes: tuple[Cause, ...] = ()
    reason: str = ""
    cost: Cost | None = None
    source: SourceFinding | None = None

    @property
    def why(self) -> str:
        """The causes or the reason, and what the source says, in one line."""
        causes = "; ".join(cause.text for cause in self.causes)
        told = "" if self.source is None else self.source.told
        return "; ".join(part for part in (causes, self.reason, told) if part)

    def to_json(self) -> dict[str, Any]:
        """Return the interval as commands print it."""
        generation = self.generation
        return {
            "interval": self.interval,
            "state": self.state,
            "generation": None if generation is None else generation_name(generation),
            "causes": [cause.to_json() for cause in self.causes],
            "reason": self.reason,
            "cost": None if self.cost is None else asdict(self.cost),
            "source": None if self.source is None else self.source.to_json(),
        }


class CauseCount(NamedTuple):
    """A cause, with the number of versions that it makes outdated, and the first of them.

    Attributes:
        text: The cause.
        intervals: Number of versions.
        first: Interval and generation of the first version, as in ``2013-01-01/g0001``.
    """

    text: str
    intervals: int
    first: str


@dataclass(frozen=True)
class OutdatedReport:
    """The versions of a data set, compared with what a build of now would make.

    Attributes:
        dataset: Name of the data set.
        asked: The range that was asked for, or None.
        intervals: Every interval with a folder of versions, in order of names.
        doubts: What the answer does not cover, one line each.
    """

    dataset: str
    asked: str | None
    intervals: tuple[IntervalFinding, ...]
    doubts: tuple[str, ...]

    @property
    def outdated(self) -> list[IntervalFinding]:
        """The outdated intervals, oldest first."""
        return [each for each in self.intervals if each.state == "outdated"]

    @property
    def unfinished(self) -> list[IntervalFinding]:
        """The intervals whose publication the next build finishes, oldest first."""
        return [each for each in self.intervals if each.state == "unfinished"]

    @property
    def counts(self) -> dict[State, int]:
        """State → number of intervals."""
        return dict(Counter(each.state for each in self.intervals))

    @property
    def causes(self) -> list[CauseCount]:
        """The causes, in the order of their first version."""
        found: dict[str, list[str]] = {}
        for each in self.outdated:
            for cause in each.causes:
                version = f"{each.interval}/{generation_name(each.generation or 0)}"
                found.setdefault(cause.text, []).append(version)
        return [CauseCount(text, len(each), each[0]) for text, each in found.items()]

    @property
    def cost(self) -> TotalCost:
        """The cost of building all outdated versions again."""
        return TotalCost.of([each.cost for each in self.outdated if each.cost is not None])

    @property
    def is_unreadable(self) -> bool:
        """Whether a manifest cannot be used."""
        return "unreadable" in self.counts

    @property
    def is_in_order(self) -> bool:
        """Whether every version is what a build of now would make, as far as was asked."""
        told = [each.source for each in self.intervals if each.source is not None]
        is_built = not self.outdated and not self.unfinished
        return is_built and not any(each.needs_a_person for each in told)

    def to_json(self) -> dict[str, Any]:
        """Return the report as commands print it."""
        return {
            "dataset": self.dataset,
            "counts": self.counts,
            "in_order": self.is_in_order,
            "causes": [cause._asdict() for cause in self.causes],
            "cost": self.cost.to_json(),
            "doubts": list(self.doubts),
            "intervals": [each.to_json() for each in self.intervals],
        }
