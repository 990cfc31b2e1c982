"""Replay: an interval is planned from an earlier plan and its landing files, without its source."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Final, NamedTuple

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Manifest
from trainfeed.dataset.layout import generation_name
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.inputs import KeptInputs, reader_of
from trainfeed.pipeline.planner._planner import Planner
from trainfeed.pipeline.plans import Plan, first_few, landing_file, load_plan, promised_leaf
from trainfeed.pipeline.quarantine import counted, unpublished_plans
from trainfeed.pipeline.stage import Stage
from trainfeed.sources import LandingFile
from trainfeed.specification import DatasetSpec
from trainfeed.storage import Location

__all__ = ["ReplayPlan", "plan_replay"]

_MOST_WHY_CHARS: Final = 500


class ReplayPlan(NamedTuple):
    """How a replay of an interval begins.

    Attributes:
        plan: The plan to build, or that of the published version; None if nothing is quarantined.
        is_published: Whether ``plan`` is that of the published version.
        note: What is replayed, or why nothing is.
    """

    plan: Plan | None
    is_published: bool
    note: str


class _Origin(NamedTuple):
    """The build that is replayed; ``name`` is its generation, or the id of a failed plan."""

    name: str
    inputs: KeptInputs
    reasons: Mapping[str, int]
    is_published: bool


def plan_replay(
    planner: Planner, spec: DatasetSpec, env: Environment, why: str | None
) -> ReplayPlan:
    """Plan the inputs of an interval's last build again, with code and specification of today.

    Args:
        planner: The planner of the interval.
        spec: The data set.
        env: Folders and connections. Only log files that do not land are looked at.
        why: The reason to record; by default it counts the quarantined records.

    Raises:
        NotFoundError: The interval was never built, its last build left no quarantine, or landing
            files are missing or torn.
        SourceReplacedError: The log files of a data set that does not land are not those of the
            earlier build.
    """
    origin = _origin(planner, env)
    published = planner.unchanged(origin.inputs)
    if published is not None:
        return ReplayPlan(published, is_published=True, note=_nothing_new(origin))
    if not origin.reasons:
        note = f"no record is quarantined in {origin.name}: there is nothing to replay"
        return ReplayPlan(None, is_published=False, note=note)
    inputs = origin.inputs
    rebuild = (why or _why(origin)) if origin.is_published else None
    plan = planner.make(inputs, rebuild=rebuild, allow_gap=None, ranges=inputs.ranges)
    _require_replayable(Stage(spec, env, plan))
    return ReplayPlan(plan, is_published=False, note=_replayed(origin))


def _origin(planner: Planner, env: Environment) -> _Origin:
    """Return the build to replay: the published version, else the last that failed."""
    name, interval = planner.folder.name, planner.interval
    if planner.current is not None:
        return _of_version(planner.folder, interval, planner.current)
    found = unpublished_plans(env, name, interval)
    if not found:
        raise NotFoundError(
            f"expected a published version of {name}/{interval}, or work files of a build that"
            f" failed in {env.work}, got neither: there is nothing to replay; build it: trainfeed"
            f" build {name} --interval {interval}"
        )
    plan = load_plan(planner.folder, PlanRef(name, interval, found[-1].origin))
    return _Origin(plan.plan_id, KeptInputs.of_plan(plan), found[-1].reasons(), is_published=False)


def _of_version(folder: DatasetFolder, interval: str, current: Manifest) -> _Origin:
    try:
        plan = load_plan(folder, PlanRef(folder.name, interval, current.plan))
        inputs = KeptInputs.of_plan(plan)
    except NotFoundError:
        inputs = KeptInputs.of_version(current)
    reasons = current.quarantine["reasons"]
    return _Origin(generation_name(current.generation), inputs, reasons, is_published=True)


def _require_replayable(stage: Stage) -> None:
    """Refuse a replay whose records are gone, before a stage would ask the source for them."""
    plan, kind = stage.plan, stage.spec.source.kind
    if not kind.lands:
        reader_of(stage.spec).check(stage, plan.inputs)
        return
    files = [landing_file(stage.landing, plan.inputs[each.source], each) for each in plan.ranges]
    missing = [file.uri for file in files if not _is_whole(file)]
    if missing:
        raise NotFoundError(
            f"a replay of {plan.dataset}/{plan.interval['name']} needs its landed records:"
            f" {len(missing)} of {len(files)} landing files are gone or torn below"
            f" {stage.env.landing}: {first_few(missing)}; the source was not read, and nothing was"
            f" built or removed; read the source again: trainfeed build {plan.dataset} --interval"
            f" {plan.interval['name']} --rebuild WHY"
        )


def _is_whole(location: Location) -> bool:
    """Return whether a landing file is there with its trailer; ``ingest`` compares its bytes."""
    if not location.exists():
        return False
    try:
        with closing(LandingFile.open(location)) as landing:
            promised_leaf(landing)
    except FormatError:
        return False
    return True


def _why(origin: _Origin) -> str:
    """Return the reason of the next generation: the same for two replays of one quarantine."""
    text = f"replay of the quarantine of {origin.name}: {counted(origin.reasons)}"
    return text[:_MOST_WHY_CHARS]


def _replayed(origin: _Origin) -> str:
    what = f"replay of the quarantine of {origin.name} ({counted(origin.reasons)})"
    if origin.is_published:
        return f"{what}, from its plan and landing; the source is not planned again"
    return f"{what}, which is not published: this is the build of the interval, from that plan"


def _nothing_new(origin: _Origin) -> str:
    held = counted(origin.reasons) or "none"
    return (
        f"{origin.name} is from this code, specification and lookups, nothing is built; its"
        f" quarantined records: {held}"
    )
