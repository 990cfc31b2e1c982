"""The decision about an interval: a new plan, that of the published version, or none.

A version that today's code, specification, lookups, documents or uploads would not make is
*outdated*, and the rule of the request decides about it. The rule never decides about a source that
was replaced or lost files: only a person can say which of the two sources is right.
"""

from __future__ import annotations

import logging
from typing import Literal, NamedTuple

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Skip
from trainfeed.dataset.layout import generation_name
from trainfeed.errors import FormatError, NotFoundError, TrainFeedError
from trainfeed.intervals import Interval
from trainfeed.pipeline._outdated_rule import OutdatedRule
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.inputs import Inputs, PublishedInputs, is_away, reader_of
from trainfeed.pipeline.planner._causes import reason_of
from trainfeed.pipeline.planner._conflict import OutdatedVersion
from trainfeed.pipeline.planner._planner import Planner
from trainfeed.pipeline.planner._retired_before import refuse_retired
from trainfeed.pipeline.plans import MadeBy, Plan, first_few, load_plan
from trainfeed.specification import DatasetSpec

__all__ = ["Asked", "FoundPlan", "find_plan"]

logger = logging.getLogger(__name__)


class Asked(NamedTuple):
    """The request for a build.

    Attributes:
        rebuild: The reason for building a published interval again, or None.
        allow_gap: The reason for accepting that retention deleted records, or None.
        outdated: The rule for an outdated version. With ``REBUILD``, ``rebuild`` is only for
            outdated versions, and stands before the causes in the recorded reason.
    """

    rebuild: str | None = None
    allow_gap: str | None = None
    outdated: OutdatedRule = OutdatedRule.FAIL


class FoundPlan(NamedTuple):
    """A plan with its verdict and note; see ``PlanReport``."""

    plan: Plan
    verdict: Literal["build", "identical", "kept"]
    note: str | None = None


def find_plan(
    spec: DatasetSpec, interval: Interval, env: Environment, folder: DatasetFolder, asked: Asked
) -> FoundPlan | Skip:
    """Plan from the source; if it is away, from the inputs of the published version.

    Raises:
        TrainFeedError: See ``trainfeed.pipeline.plan``.
    """
    if asked.rebuild is None:
        refuse_retired(folder, interval.name)
    try:
        with reader_of(spec).open(spec, env, folder, interval) as source:
            return _decide(Planner(spec, interval, env, folder, asked.rebuild), source, asked)
    except TrainFeedError as error:
        is_forced = asked.rebuild is not None and asked.outdated is OutdatedRule.FAIL
        if is_forced or not is_away(error):
            raise
        found = _without_source(Planner(spec, interval, env, folder), error, asked)
        if found is None:
            raise
        return found


def _decide(planner: Planner, source: Inputs, asked: Asked) -> FoundPlan | Skip:
    """Return the plan of the published version, the decision to skip, or a new plan."""
    rebuild = asked.rebuild
    outdated = None if asked.outdated is OutdatedRule.FAIL else planner.outdated(source)
    if outdated is not None and asked.outdated is OutdatedRule.KEEP:
        return _kept(outdated)
    if asked.outdated is OutdatedRule.REBUILD:
        rebuild = None if outdated is None else reason_of(outdated.causes, rebuild)
    published = planner.identical(source, rebuild)
    if published is not None:
        note = _spent_reason(published) if rebuild is not None else None
        return FoundPlan(published, "identical", note)
    skip = planner.skip(source)
    if skip is not None:
        return skip
    made_by: MadeBy | None = "outdated" if outdated is not None else None
    plan = planner.make(source, rebuild=rebuild, allow_gap=asked.allow_gap, made_by=made_by)
    source.confirm()
    return FoundPlan(plan, "build")


def _without_source(planner: Planner, error: TrainFeedError, asked: Asked) -> FoundPlan | None:
    """Decide from the inputs of the published version; None if that needs the source."""
    inputs = PublishedInputs(error)
    outdated = None if asked.outdated is OutdatedRule.FAIL else planner.outdated(inputs)
    if outdated is not None:
        return _kept(outdated) if asked.outdated is OutdatedRule.KEEP else None
    plan = planner.identical(inputs, None)
    return None if plan is None else FoundPlan(plan, "identical", _not_compared(plan, error))


def _kept(found: OutdatedVersion) -> FoundPlan:
    """Return the plan of an outdated version, with the note that says so."""
    folder, interval, current = found.version
    causes = first_few([cause.text for cause in found.causes])
    note = f"{generation_name(current.generation)} is outdated and kept, nothing is built: {causes}"
    logger.warning("plan %s/%s: %s", folder.name, interval, note)
    try:
        plan = load_plan(folder, PlanRef(folder.name, interval, current.plan))
    except (FormatError, NotFoundError) as error:
        raise NotFoundError(
            f"{note}; but its plan {folder.plan(interval, current.plan)} is gone or damaged, and"
            " the later stages of the run need it; nothing was changed; read the version as it is,"
            " or build the next generation with --outdated rebuild"
        ) from error
    return FoundPlan(plan, "kept", note)


def _not_compared(found: Plan, error: TrainFeedError) -> str:
    """Return the note about a version that was found identical without its source."""
    note = (
        f"{generation_name(found.generation)} is published from this code, specification and"
        f" lookups; its source was not compared: {type(error).__name__}: {error}"
    )
    logger.warning("plan %s/%s: %s", found.dataset, found.interval["name"], note)
    return note


def _spent_reason(found: Plan) -> str:
    """Return the note about a rebuild that already took place for the same reason."""
    note = (
        f"{generation_name(found.generation)} was built for this reason already, nothing is built;"
        " to build again give another, with the date for instance"
    )
    logger.warning("plan %s/%s: %s", found.dataset, found.interval["name"], note)
    return note
