"""The claims that the plans of an interval have on landing files.

A plan whose number is above the last generation may still be published: its landing files are those
of a build that runs, pauses, or failed and is to be replayed. A plan whose generation is there is
needed for a repair, a replay of its quarantine, and a build with changed code once the source has
deleted the records. A plan whose generation was removed, or can no longer be made, needs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from trainfeed.errors import FormatError, NotFoundError
from trainfeed.pipeline.plans import Plan, landing_name_of
from trainfeed.retention._folder_look import Look

__all__ = ["IntervalClaims", "PlanClaim", "claims_in", "claims_of"]

State = Literal["open", "kept", "gone", "given up"]


@dataclass(frozen=True)
class PlanClaim:
    """The landing files that one plan names.

    Attributes:
        plan_id: Id of the plan.
        generation: Number of its generation.
        state: ``open`` if the generation may still be published, ``kept`` if it is there, ``gone``
            if it was removed, ``given up`` if it was never published and the rule ``plans`` says
            that it will not be.
        files: Paths of the files below the landing area.
    """

    plan_id: str
    generation: int
    state: State
    files: frozenset[str]


@dataclass(frozen=True)
class IntervalClaims:
    """All claims of one interval.

    Attributes:
        interval: Name of the interval.
        plans: The claims of the plans that can be read.
        unreadable: Why a plan of the interval cannot be read; None if all can.
    """

    interval: str
    plans: tuple[PlanClaim, ...]
    unreadable: str | None

    @property
    def wanted(self) -> frozenset[str]:
        """Files that an open or kept plan names."""
        return self.named("open", "kept")

    @property
    def superseded(self) -> frozenset[str]:
        """Files that a plan names whose generation is gone, and that are not wanted."""
        return self.named("gone") - self.wanted

    @property
    def given_up(self) -> frozenset[str]:
        """Files that only plans name that are given up."""
        return self.named("given up") - self.named("gone") - self.wanted

    def named(self, *states: State) -> frozenset[str]:
        """Return the files that plans in one of these states name."""
        found = (each.files for each in self.plans if each.state in states)
        return frozenset[str]().union(*found)

    @property
    def generations(self) -> list[int]:
        """Published generations whose plan is known, ascending."""
        return sorted({each.generation for each in self.plans if each.state == "kept"})


def claims_of(folder: Look) -> Iterator[IntervalClaims]:
    """Yield the claims of every interval that has plans, in order of intervals.

    Raises:
        StorageError: The publication root refused or failed.
    """
    for interval in folder.planned_intervals():
        yield claims_in(folder, interval)


def claims_in(folder: Look, interval: str) -> IntervalClaims:
    """Return the claims of one interval.

    Raises:
        StorageError: The publication root refused or failed.
    """
    plans, unreadable = [], None
    for plan_id in folder.plan_ids(interval):
        try:
            plan = folder.plan_of(interval, plan_id)
        except FormatError as error:
            unreadable = f"plan {plan_id} of {folder.name}/{interval} cannot be read: {error}"
        except NotFoundError:
            continue  # removed since the listing
        else:
            plans.append(_claim(folder, interval, plan))
    return IntervalClaims(interval, tuple(plans), unreadable)


def _claim(folder: Look, interval: str, plan: Plan) -> PlanClaim:
    files = frozenset(landing_name_of(plan.inputs[each.source], each) for each in plan.ranges)
    return PlanClaim(plan.plan_id, plan.generation, _state(folder, interval, plan), files)


def _state(folder: Look, interval: str, plan: Plan) -> State:
    if plan.generation > folder.last_generation(interval):
        return "open"
    # A mark alone is a removal that a kill has ended; while the folder is there, the version may
    # come back.
    return "kept" if folder.has_folder(interval, plan.generation) else "gone"
