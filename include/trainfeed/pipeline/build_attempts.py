"""Attempts at a build: one that is killed is told of by the next attempt at the same plan."""

from __future__ import annotations

from contextlib import AbstractContextManager

from trainfeed.attempts import ATTEMPTS, attempt
from trainfeed.config import Environment
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.functions import memory_remedy
from trainfeed.specification import DatasetSpec
from trainfeed.storage import Location

__all__ = ["build_attempt"]


def build_attempt(
    spec: DatasetSpec, env: Environment, ref: PlanRef, work: str
) -> AbstractContextManager[None]:
    """Return what surrounds the work of a process on a plan; see ``trainfeed.attempts.attempt``.

    Args:
        spec: The data set.
        env: Where things are.
        ref: The plan.
        work: Which part of it, as it may be in a file name: a stage, and the number of its task.
    """
    mark = Location.parse(env.work) / ATTEMPTS / f"{ref.plan_id}.{work}.json"
    return attempt(mark, f"{work} of {ref.dataset}/{ref.interval}", memory_remedy(spec))
