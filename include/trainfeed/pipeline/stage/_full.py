"""What is said when a disk or a quota is full in the middle of a build: kept, needed, free."""

from __future__ import annotations

from trainfeed.config import Environment
from trainfeed.errors import QuotaExceededError
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.stage._space import landed_bytes, space
from trainfeed.specification import DatasetSpec
from trainfeed.storage import Location

__all__ = ["full"]


def full(
    spec: DatasetSpec, plan: Plan, env: Environment, error: QuotaExceededError
) -> QuotaExceededError:
    """Return the error of a build, for the one of the file that did not fit."""
    places = space(spec, plan, env, landed_bytes(spec, plan, env))
    lines = [_line(each["place"], each["needed_bytes"], each["free_bytes"]) for each in places]
    work = _line("work", None, Location.parse(env.work).free_bytes())
    landing = "landing files of this run, " if spec.source.kind.lands else ""
    return QuotaExceededError(
        f"{error}; kept: {landing}the plan and every published version; nothing was published;"
        f" {'; '.join([*lines, work])}; make room and build the interval again, it goes on from"
        " there"
    )


def _line(place: str, needed: int | None, free: int | None) -> str:
    want = "an unknown number of" if needed is None else f"about {needed}"
    return f"{place}: {want} bytes needed in all, {'unknown' if free is None else free} free"
