"""Stage ``plan``: fix what an interval reads and makes, before anything is read.

The name of a plan consists of the fingerprint and the planned generation, so two runs of one
interval meet at one plan. If the interval is published from an equal fingerprint, there is nothing
to do: the verdict is ``identical``. This is also found while the source is away.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from trainfeed.core import faults
from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval
from trainfeed.errors import ConfigError
from trainfeed.files import make_folders
from trainfeed.files.stores import Location, posix, require_store_clock
from trainfeed.functions import require_function
from trainfeed.pipeline.code_copies import keep_code, keep_lookups
from trainfeed.pipeline.planner.decision import Asked, FoundPlan, find_plan, require_closed
from trainfeed.pipeline.planner.fingerprint import check_interval_uploads, told_acknowledged
from trainfeed.pipeline.planner.planner import Planner
from trainfeed.pipeline.planner.replay import plan_replay
from trainfeed.pipeline.plans import Plan, first_few
from trainfeed.pipeline.reports import OutdatedRule, PlanReport, SkipReport
from trainfeed.pipeline.run_stage import lift_end, recorded_end
from trainfeed.pipeline.stage import Stage, require_space
from trainfeed.specification import DatasetSpec
from trainfeed.versions import (
    DatasetFolder,
    Skip,
    record_schedule,
    require_writable_root,
    write_skip,
)
from trainfeed.versions.interval_notes import told_passed_over
from trainfeed.versions.layout import generation_name
from trainfeed.versions.order import split_member
from trainfeed.versions.state_folder import decide

logger = logging.getLogger(__name__)


def plan(  # noqa: PLR0913 - the options of a build
    spec: DatasetSpec,
    interval: Interval,
    env: Environment,
    *,
    rebuild: str | None = None,
    allow_gap: str | None = None,
    outdated: OutdatedRule = OutdatedRule.FAIL,
    replay: bool = False,
    checks_space: bool = True,
) -> PlanReport | SkipReport:
    """Plan one interval, or find that it is already published.

    Args:
        spec: The data set.
        interval: A tick of its schedule.
        env: Folders and connections.
        rebuild: The reason for building a published interval again, as the next generation. The
            same reason again does nothing, so a run can be repeated.
        allow_gap: The reason for accepting that retention deleted records.
        outdated: The rule for a published version that is outdated: what it was built from (code,
            specification, lookups, documents, uploads) differs from what is there now. With
            ``REBUILD`` the reason of the next generation is made from the causes, and ``rebuild``
            stands before them.
        replay: Whether to build the interval from its last plan and its landing files, with the
            code of today and without the source, if that build quarantined records. ``rebuild`` is
            then the reason to record, by default one that counts these records.
        checks_space: Whether a build that will not fit into the free space is refused.

    Returns:
        The plan with its verdict. Its ``note`` says if a rebuild was asked for with a reason that
        has already led to the published version, and if a version was found identical without its
        source, or if uploads were refused. For an interval that the specification skips, or that
        has nothing to replay, the reason.

    Raises:
        WindowOpenError: The interval has not ended and settled yet, its folder of log files is
            not complete, or open transactions may hide records of it (TransactionOpenError).
        LogsMissingError: The folder of log files was not complete in time.
        TopicNotFoundError: A topic is not there, and the interval is not published.
        SourceUnreachableError: A broker does not answer, and the interval is not published.
        OffsetOutOfRangeError: Retention deleted records of the interval, or may have.
        EmptyUnprovenError: Nothing would be read, and nothing proves the interval empty.
        SourceReplacedError: The published version was built from another topic or file of that
            name, or from a log file that is gone; ``outdated`` does not change that.
        ConflictError: The interval is published from another fingerprint, and ``rebuild`` and
            ``outdated`` do not say what to do about it.
        WithdrawnError: The same content was withdrawn, and ``rebuild`` gives no reason to publish
            it again.
        RootError: The publication root was not made by ``trainfeed init``.
        UnsuitableStoreError: The publication root cannot publish atomically.
        QuotaExceededError: The landing area or the publication root has too little space.
        ChecksumError: An upload changed after its receipt.
        MemoryLimitError: The data set has more fields than ``memory_bytes`` has room for.
        NotFoundError: A replay of an interval that was never built, or whose landing files are
            gone.
    """
    started = time.perf_counter()
    spec = spec.for_interval(interval.start)
    # Checks that need no source come first, so that a wrong setting fails at once.
    _require_reasons(rebuild=rebuild, allow_gap=allow_gap)
    _require_one_wish(rebuild, outdated, replay=replay)
    require_function(spec)
    require_closed(spec, interval, datetime.now(UTC))
    folder = DatasetFolder(Path(env.root), spec.name)
    require_writable_root(env)
    with recorded_end(folder, interval.name, "plan"):
        _probe(folder)
        schedule = partial(record_schedule, folder, spec.schedule_model(), interval.end)
        decide(folder, "plan", schedule)
        unused = check_interval_uploads(spec, folder, interval)
        asked = Asked(rebuild, allow_gap, outdated)
        find = _replay if replay else find_plan
        found = find(spec, interval, env, folder, asked)
        if isinstance(found, SkipReport):
            return found
        if isinstance(found, Skip):
            skip = decide(folder, "skip", partial(write_skip, folder, found))
            lift_end(folder, interval.name)
            return _skipped(folder, skip, started)
        _prepare(spec, env, folder, found, checks_space=checks_space)
        known = told_acknowledged(folder, found.plan) if found.verdict == "build" else None
    report = _report(found, started, [known, unused])
    logger.info(
        "plan %s/%s: %s in %.1f s", spec.name, interval.name, report.verdict, report.seconds
    )
    return report


def _replay(
    spec: DatasetSpec, interval: Interval, env: Environment, folder: DatasetFolder, asked: Asked
) -> FoundPlan | Skip | SkipReport:
    """Plan from the last build of the interval; no broker is contacted."""
    if asked.allow_gap is not None:
        raise ConfigError("expected no allow_gap beside a replay, which does not read the source")
    planner = Planner(spec, interval, env, folder, asked.rebuild)
    found = plan_replay(planner, spec, interval, env, asked.rebuild)
    if isinstance(found, Skip):
        return found
    if found.plan is None:
        return SkipReport(folder.name, interval.name, found.note)
    return FoundPlan(found.plan, "identical" if found.is_published else "build", found.note)


def _prepare(
    spec: DatasetSpec,
    env: Environment,
    folder: DatasetFolder,
    found: FoundPlan,
    *,
    checks_space: bool,
) -> None:
    """Refuse a build that lacks memory or space; keep its code; forget the last attempt."""
    if found.verdict == "build":
        from trainfeed.pipeline.functions.account import require_room_for_fields

        require_room_for_fields(spec)
    keep_code(folder, spec)
    keep_lookups(folder, spec)
    faults.point("plan.after_save")
    if found.verdict == "build" and checks_space:
        require_space(Stage(spec, env, found.plan))
    lift_end(folder, found.plan.interval["name"])


def _report(found: FoundPlan, started: float, remarks: Sequence[str | None]) -> PlanReport:
    """Return the report of a plan; ``remarks`` are about withdrawals and uploads."""
    plan = found.plan
    _warn_of_emptiness(plan)
    _tell_passed_over(plan)
    return PlanReport(
        plan.ref(),
        generation_name(plan.generation),
        found.verdict,
        {
            "ingest": len(plan.ingest),
            "preprocess": len(plan.preprocess),
            "convert": len(plan.convert),
        },
        empty_because=plan.empty_because,
        passed_over=told_passed_over(plan.passed_over) or None,
        seconds=_since(started),
        note="; ".join(filter(None, [found.note, *remarks])) or None,
    )


def _skipped(folder: DatasetFolder, skip: Skip, started: float) -> SkipReport:
    """Return the report of a skipped interval, which has no plan and no task."""
    note = (
        f"the interval is left out (missing: skip): {skip.why}; nothing was read or published;"
        " when the records have come, build it by hand"
    )
    logger.warning("plan %s/%s: %s", folder.name, skip.interval, note)
    return SkipReport(folder.name, skip.interval, note, _since(started))


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 3)


def _warn_of_emptiness(found: Plan) -> None:
    """Log why nothing is read of an interval."""
    if not found.empty_because:
        return
    why = first_few([f"{source}: {reason}" for source, reason in found.empty_because.items()])
    logger.warning("plan %s/%s: nothing to read (%s)", found.dataset, found.interval["name"], why)


def _tell_passed_over(found: Plan) -> None:
    """Log which entries of a folder of logs or table are not read; markers are no surprise."""
    name = found.dataset, found.interval["name"]
    sources = [split_member(source) for source in (*found.inputs, *found.empty_because)]
    where = "folder of logs"
    if any(member is not None for member, _ in sources):
        where = "members of the union"
    elif any(source.startswith("iceberg:") for _, source in sources):
        where = "table"
    if told := told_passed_over(found.passed_over, marker=False):
        logger.warning("plan %s/%s: passed over in the %s: %s", *name, where, told)


def _probe(folder: DatasetFolder) -> None:
    """Refuse a root on which publication cannot be one rename: wrong file system, quota border."""
    versions = folder.path / "versions"
    posix.make_public_dir(versions)
    with posix.map_errors(folder.staging):
        make_folders(folder.staging)
    posix.probe(folder.staging, into=versions)
    # What has ended, settled or never came is decided by the time.
    tmp = Location.parse(str(folder.staging / "tmp"))
    require_store_clock(tmp, "nothing was planned")


def _require_one_wish(rebuild: str | None, outdated: OutdatedRule, *, replay: bool) -> None:
    if replay and outdated is not OutdatedRule.FAIL:
        raise ConfigError(
            f"expected a replay or outdated: {outdated}, got both; nothing was read or written;"
            " leave one of them out"
        )
    if rebuild is not None and outdated is OutdatedRule.KEEP:
        raise ConfigError(
            f"expected a rebuild or outdated: keep, got both ({rebuild!r}); nothing was read or"
            " written; leave one of them out"
        )


def _require_reasons(**reasons: str | None) -> None:
    for name, reason in reasons.items():
        if reason is not None and not reason.strip():
            raise ConfigError(f"expected a reason for {name}, got {reason!r}; say why")
