"""Replay: an interval is planned from an earlier plan and its landing files, without its source."""

from __future__ import annotations

from contextlib import closing
from typing import Final, NamedTuple

from trainfeed.config import Environment
from trainfeed.dataset import Skip
from trainfeed.dataset.interval_notes import told_landing_removal
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.intervals import Interval
from trainfeed.pipeline.inputs import reader_of
from trainfeed.pipeline.planner._planner import Planner
from trainfeed.pipeline.planner._replay_origin import Origin, find_origin, skip_unpublished
from trainfeed.pipeline.plans import Plan, first_few, landing_file, promised_leaf, save_plan
from trainfeed.pipeline.quarantine import told_reasons
from trainfeed.pipeline.stage import Stage
from trainfeed.sources import LandingFile
from trainfeed.specification import DatasetSpec
from trainfeed.storage import Location

__all__ = ["ReplayPlan", "is_replay", "plan_replay"]

_REPLAY: Final = "replay of the quarantine of "
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


def plan_replay(
    planner: Planner, spec: DatasetSpec, interval: Interval, env: Environment, why: str | None
) -> ReplayPlan | Skip:
    """Plan the inputs of an interval's last build again, with code and specification of today.

    Args:
        planner: The planner of the interval.
        spec: The data set.
        interval: The interval.
        env: Folders and connections. No topic is looked at; log files are if they do not land, or
            if the interval is not published.
        why: The reason to record; by default it counts the quarantined records.

    Returns:
        How the replay begins; for an unpublished interval that the specification skips, that
        decision.

    Raises:
        NotFoundError: The interval was never built, its last build left no quarantine, or landing
            files are missing or torn.
        SourceReplacedError: The specification names another source, or log files that are looked
            at are not those of the earlier build.
        WindowOpenError: The interval is not published, and its log files or uploads are waited for.
    """
    origin = find_origin(planner, env)
    origin.inputs.require_source_of(spec)
    published = planner.unchanged(origin.inputs)
    if published is not None:
        return ReplayPlan(published, is_published=True, note=_nothing_new(origin))
    if not origin.reasons:
        note = f"no record is quarantined in {origin.name}: there is nothing to replay"
        return ReplayPlan(None, is_published=False, note=note)
    if not origin.is_published:
        skip = skip_unpublished(planner, spec, env, interval, origin)
        if skip is not None:
            return skip
    plan = _saved(planner, spec, env, origin, why)
    return ReplayPlan(plan, is_published=False, note=_replayed(origin, why, plan))


def _saved(
    planner: Planner, spec: DatasetSpec, env: Environment, origin: Origin, why: str | None
) -> Plan:
    """Write the plan of the replay once its records are known to be there, or adopt a plan."""
    rebuild = (why or _why(origin)) if origin.is_published else None
    inputs = origin.inputs
    plan = planner.draft(inputs, rebuild, None, inputs.ranges, "replay")
    _require_replayable(Stage(spec, env, plan))
    return save_plan(planner.folder, plan, joins=True)


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
            f" built or removed{told_landing_removal(stage.folder, plan.interval['name'])}; read"
            f" the source again: trainfeed build {plan.dataset} --interval {plan.interval['name']}"
            " --rebuild WHY"
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


def is_replay(plan: Plan) -> bool:
    """Return whether a plan is that of a replay, whatever its reason."""
    return plan.made_by == "replay"


def _why(origin: Origin) -> str:
    """Return the reason of the next generation: the same for two replays of one quarantine."""
    text = f"{_REPLAY}{origin.name}: {told_reasons(origin.reasons)}"
    return text[:_MOST_WHY_CHARS]


def _replayed(origin: Origin, why: str | None, plan: Plan) -> str:
    what = f"{_REPLAY}{origin.name} ({told_reasons(origin.reasons)})"
    if not origin.is_published:
        return f"{what}, which is not published: this is the build of the interval, from that plan"
    text = f"{what}, from its plan and landing; the source is not planned again"
    if why in {None, plan.rebuild}:
        return text
    return f"{text}; the reason is that of a build of this generation that had begun"


def _nothing_new(origin: Origin) -> str:
    held = told_reasons(origin.reasons) or "none"
    return (
        f"{origin.name} is from this code, specification and lookups, nothing is built; its"
        f" quarantined records: {held}"
    )
