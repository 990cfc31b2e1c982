"""The names by which stages find a plan; imports nothing heavy, as tasks import it first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from trainfeed.config import Environment
    from trainfeed.specification import DatasetSpec

__all__ = ["Build", "JsonObject", "PlanRef"]

JsonObject: TypeAlias = dict[str, object]


@dataclass(frozen=True)
class PlanRef:
    """The names that a stage hands to the next one, and by which that one finds the plan.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        plan_id: Name of the plan.
    """

    dataset: str
    interval: str
    plan_id: str

    def to_json(self) -> dict[str, str]:
        """Return the reference as small JSON."""
        return {"dataset": self.dataset, "interval": self.interval, "plan_id": self.plan_id}


@dataclass(frozen=True)
class Build:
    """The build of one interval: the argument of every stage after ``plan``.

    Attributes:
        spec: The data set.
        env: Folders and connections.
        ref: The plan.
    """

    spec: DatasetSpec
    env: Environment
    ref: PlanRef
