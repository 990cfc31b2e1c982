"""Attempts at a build: after a kill, the next attempt at the same plan reports it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from trainfeed.attempts import ATTEMPTS, attempt
from trainfeed.pipeline._ref import Build
from trainfeed.pipeline.functions import memory_remedy
from trainfeed.storage import Location

__all__ = ["build_attempt"]


def build_attempt(build: Build, work: str) -> AbstractContextManager[None]:
    """Return the context in which a process works on a plan; see ``trainfeed.attempts.attempt``.

    Args:
        build: The build.
        work: The part of the build: a stage and the number of its task, fit for a file name.
    """
    mark = Location.parse(build.env.work) / ATTEMPTS / f"{build.ref.plan_id}.{work}.json"
    what = f"{work} of {build.ref.dataset}/{build.ref.interval}"
    return attempt(mark, what, memory_remedy(build.spec))
