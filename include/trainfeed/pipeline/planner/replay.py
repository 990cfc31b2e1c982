"""Replay: an interval is planned from an earlier plan and its landing files, without its source."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Final, NamedTuple

from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval
from trainfeed.errors import FormatError, NotFoundError, SourceReplacedError
from trainfeed.files.stores import Location
from trainfeed.pipeline.inputs.kept_inputs import KeptInputs
from trainfeed.pipeline.inputs.protocols import Inputs
from trainfeed.pipeline.inputs.source_readers import reader_of
from trainfeed.pipeline.landed_ranges import landing_file, promised_leaf
from trainfeed.pipeline.members import MemberPart, parts_of, telling_member
from trainfeed.pipeline.planner.planner import Planner
from trainfeed.pipeline.plans import Plan, Planned, first_few, load_plan, plan_of_version, save_plan
from trainfeed.pipeline.quarantine import told_reasons, unpublished_plans
from trainfeed.pipeline.reports import PlanRef
from trainfeed.pipeline.stage import Stage
from trainfeed.sources import LandingFile
from trainfeed.specification import DatasetSpec
from trainfeed.versions import DatasetFolder, Manifest, Skip
from trainfeed.versions.interval_notes import told_landing_removal
from trainfeed.versions.layout import generation_name
from trainfeed.versions.retire import missing_remedies, told_missing

# --- The build of an interval that a replay repeats


class Origin(NamedTuple):
    """The build that is replayed.

    Attributes:
        name: Its generation, or the id of a failed plan.
        inputs: What it read.
        reasons: Reason → number of records that it quarantined.
        is_published: Whether it is the published version.
    """

    name: str
    inputs: KeptInputs
    reasons: Mapping[str, int]
    is_published: bool


def find_origin(planner: Planner, env: Environment) -> Origin:
    """Return the build to replay: the published version, else the last that failed.

    Raises:
        NotFoundError: The interval was never built.
    """
    name, interval = planner.folder.name, planner.interval
    if planner.current is not None:
        return _of_version(planner.folder, interval, planner.current)
    found = unpublished_plans(env, name, interval)
    if not found:
        raise NotFoundError(
            f"expected a published version of {name}/{interval}, or work files of a build that"
            f" failed in {env.work}, got neither: there is nothing to replay;"
            f" {'; '.join(missing_remedies(planner.folder, [interval]))}"
            f"{told_missing(planner.folder, [interval])}"
        )
    plan = load_plan(planner.folder, PlanRef(name, interval, found[-1].origin))
    return Origin(plan.plan_id, KeptInputs.of_plan(plan), found[-1].reasons(), is_published=False)


def skip_unpublished(
    planner: Planner, spec: DatasetSpec, env: Environment, interval: Interval, origin: Origin
) -> Skip | None:
    """Ask what a build would ask before it publishes an interval for the first time.

    Returns:
        The decision to skip the interval, or None.

    Raises:
        WindowOpenError: Its log files, or its uploads, are waited for.
        SourceReplacedError: Its log files are not those that the failed build planned.
        StorageError: The file system of the log files does not answer.
    """
    parts = parts_of(spec, origin.inputs.planned)
    # No broker is asked.
    for part in [each for each in parts if not each.spec.source.kind.topics]:
        with (
            telling_member(part.name),
            reader_of(part.spec).open(part.spec, env, planner.folder, interval) as source,
        ):
            skip = source.skip() or planner.skip(origin.inputs)
            if skip is not None:
                return skip
            _require_same(planner, origin, part, source)
    return planner.skip(origin.inputs)


def _require_same(planner: Planner, origin: Origin, part: MemberPart, source: Inputs) -> None:
    """Refuse log files that came, went or changed since the build that failed."""
    found, _ = source.without_losses(None, None)
    lines = _changes(part.inputs, found)
    if lines:
        name, interval = planner.folder.name, planner.interval
        raise SourceReplacedError(
            f"{name}/{interval} is not published, and its log files are not those of the build"
            f" {origin.name} that failed: {first_few(lines)}; a replay would leave out what is"
            " there now; nothing was read or published; build the interval from them: trainfeed"
            f" build {name} --interval {interval}{told_missing(planner.folder, [interval])}"
        )


def _changes(old: Mapping[str, Planned], new: Mapping[str, Planned]) -> list[str]:
    further = [f"{source} came" for source in sorted(new.keys() - old.keys())]
    gone = [f"{source} is gone" for source in sorted(old.keys() - new.keys())]
    common = sorted(old.keys() & new.keys())
    lines = [new[source].replaced(old[source].model_dump()) for source in common]
    return [*further, *gone, *(line for line in lines if line is not None)]


def _of_version(folder: DatasetFolder, interval: str, current: Manifest) -> Origin:
    plan = plan_of_version(folder, interval, current.plan)
    inputs = KeptInputs.of_version(current) if plan is None else KeptInputs.of_plan(plan)
    reasons = current.quarantine["reasons"]
    return Origin(generation_name(current.generation), inputs, reasons, is_published=True)


# --- Replay: an interval is planned from an earlier plan and its landing files, without its source

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
    plan = stage.plan
    pieces = [each for each in plan.ranges if stage.lands(each.source)]
    files = [landing_file(stage.landing, plan.inputs[each.source], each) for each in pieces]
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
    reader_of(stage.spec).check_names(stage, stage.plan.ranges)
    if in_place := [source for source in plan.inputs if not stage.lands(source)]:
        reader_of(stage.spec).check(stage, in_place)


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
