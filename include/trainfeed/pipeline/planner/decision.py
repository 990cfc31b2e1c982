"""The decision about an interval: a new plan, that of the published version, or none yet."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval, format_time, ready_at
from trainfeed.errors import (
    FormatError,
    NotFoundError,
    RetiredError,
    StorageError,
    TrainFeedError,
    WindowOpenError,
)
from trainfeed.pipeline.inputs.kept_inputs import PublishedInputs, is_away
from trainfeed.pipeline.inputs.logs import (
    Absence,
    awaited_logs,
    find_interval_logs,
    logs_folders,
    logs_of,
)
from trainfeed.pipeline.inputs.protocols import Inputs
from trainfeed.pipeline.inputs.source_readers import reader_of
from trainfeed.pipeline.planner.fingerprint import OutdatedVersion, reason_of
from trainfeed.pipeline.planner.planner import Planner
from trainfeed.pipeline.plans import MadeBy, Plan, first_few, plan_of_version
from trainfeed.pipeline.reports import OutdatedRule
from trainfeed.pipeline.run_stage import recorded_end
from trainfeed.sources import FolderTree
from trainfeed.specification import DatasetSpec
from trainfeed.versions import DatasetFolder, Skip, require_writable_root
from trainfeed.versions.layout import generation_name
from trainfeed.versions.retire import retirement_of

# --- Checks that an interval can be planned: it has ended and settled, its log files are complete


def require_closed(spec: DatasetSpec, interval: Interval, now: datetime) -> None:
    """Refuse an interval that may still get records.

    Args:
        spec: The data set.
        interval: A tick of its schedule.
        now: Aware UTC time.

    Raises:
        WindowOpenError: The interval has not ended and settled yet; ``ready_at`` says when it will.
    """
    settle = spec.source.kind.settle
    ready = ready_at(interval, settle)
    if now >= ready:
        return
    error = WindowOpenError(
        f"interval {interval.name} of data set {spec.name!r} ends at {format_time(interval.end)}"
        f" and settles for {settle}: it can be planned from {format_time(ready)} on;"
        " nothing was read or written; run again then"
    )
    error.ready_at = ready
    raise error


def folders_of_logs(spec: DatasetSpec, interval: Interval, env: Environment) -> FolderTree:
    """Return the folders of the log files of an interval.

    Raises:
        ConfigError: The data set has no log files, or its connection is not defined.
    """
    return logs_folders(logs_of(spec), env, interval)


def require_complete(spec: DatasetSpec, interval: Interval, env: Environment) -> int:
    """Return the number of log files in the complete folder of an interval.

    The number is 0 for a published interval whose folder is not complete or cannot be read any
    more, or whose file system is away (``plan`` decides what that means), and for an interval whose
    wait has ended and that the specification takes as empty or skips.

    Raises:
        LogsMissingError: The folder was not complete in time.
        WindowOpenError: The folder is not complete; or the interval has not ended and settled yet.
        FormatError: The folder holds an entry that cannot be read as a log file.
        RootError: The publication root was not made by ``trainfeed init``.
        StorageError: The file system does not answer.
    """
    require_writable_root(env)
    folder = DatasetFolder(Path(env.root), spec.name)
    with recorded_end(folder, interval.name, "logs"):
        try:
            return len(find_interval_logs(spec, env, interval).files)
        except (FormatError, WindowOpenError, StorageError) as error:
            return _without_logs(spec, interval, folder, env, error)


def _without_logs(
    spec: DatasetSpec,
    interval: Interval,
    folder: DatasetFolder,
    env: Environment,
    error: FormatError | WindowOpenError | StorageError,
) -> int:
    """Return 0 for an interval that needs no logs now; raise the error for any other."""
    if isinstance(error, StorageError) and not is_away(error):
        raise error
    now = datetime.now(UTC)
    require_closed(spec, interval, now)
    if folder.current_generation(interval.name) is not None:
        return 0
    if not isinstance(error, WindowOpenError):
        raise error
    folders = folders_of_logs(spec, interval, env)
    Absence(spec, interval, folders, error, now).require_decided()
    return 0


def waits_until(spec: DatasetSpec, interval: Interval) -> datetime:
    """Return the aware UTC time at which the wait for the logs of an interval ends.

    Raises:
        ConfigError: The data set has no log files.
    """
    return awaited_logs(spec, interval).until


# --- Refuses to build a retired interval, so that no backfill makes again what retention removed


def refuse_retired(folder: DatasetFolder, interval: str) -> None:
    """Refuse to plan an interval that is retired.

    Raises:
        RetiredError: It is; the message says who retired it, when and why.
    """
    retired = retirement_of(folder, interval)
    if retired is not None:
        next_one = generation_name(retired.last_generation + 1)
        raise RetiredError(
            f"{folder.name}/{retired.told}; nothing was planned; a build with a reason makes it"
            f" again as {next_one}: trainfeed build {folder.name}"
            f" --interval {interval} --rebuild 'WHY' (Airflow: parameter 'rebuild')"
        )


# --- The decision about an interval: a new plan, that of the published version, or none

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
    plan = plan_of_version(folder, interval, current.plan)
    if plan is None:
        raise NotFoundError(
            f"{note}; but its plan {folder.plan(interval, current.plan)} is gone or damaged, and"
            " the later stages of the run need it; nothing was changed; read the version as it is,"
            " or build the next generation with --outdated rebuild"
        )
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
