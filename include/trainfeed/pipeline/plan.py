"""Stage ``plan``: fix what an interval reads and makes, before anything is read.

The plan's name is made of the fingerprint and the planned generation, so two runs of one interval
meet at one plan. When the interval is published from an equal fingerprint there is nothing to do:
the verdict is ``identical``. That is found without the source, too, when the source is away.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sized
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from trainfeed import faults
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Skip, record_schedule, require_root, write_skip
from trainfeed.dataset.layout import generation_name
from trainfeed.errors import ConfigError, TrainFeedError
from trainfeed.paths import make_folders
from trainfeed.pipeline.functions import require_room_for_fields
from trainfeed.pipeline.inputs import Inputs, PublishedInputs, is_away, reader_of
from trainfeed.pipeline.planner import Planner, require_closed
from trainfeed.pipeline.plans import Plan, first_few, keep_code
from trainfeed.pipeline.stage import require_space
from trainfeed.specification import DatasetSpec
from trainfeed.storage import posix
from trainfeed.usercode import require_function
from trainfeed.window import Interval

__all__ = ["plan"]

logger = logging.getLogger(__name__)

_STAGES: Final = ("ingest", "preprocess", "convert")


def plan(
    spec: DatasetSpec,
    interval: Interval,
    env: Environment,
    *,
    rebuild: str | None = None,
    allow_gap: str | None = None,
    checks_space: bool = True,
) -> dict[str, Any]:
    """Plan one interval, or find that it is published already.

    Args:
        spec: The data set.
        interval: A tick of its schedule.
        env: Where things are.
        rebuild: Why a published interval is built again, as the next generation. A reason counts
            once, so that a run may be repeated.
        allow_gap: Why records that retention deleted may be missing.
        checks_space: Whether a build that will not fit is refused.

    Returns:
        The plan's reference, ``generation``, ``verdict`` (build or identical), ``seconds``, and
        per stage one ``{"unit": n}`` for every task, never none. ``note`` besides, when a rebuild
        was asked for with the reason that the published version was built for, and when a version
        was found identical without its source; ``empty_because`` when there is nothing to read:
        per source why. An interval that the specification leaves out has the verdict ``skipped``,
        a ``note``, no tasks, no plan and no generation.

    Raises:
        WindowOpenError: The interval has not ended and settled yet, its folder of log files is
            not complete, or open transactions may hide records of it (TransactionOpenError).
        LogsMissingError: Its folder of log files was not complete in time.
        TopicNotFoundError: A topic is not there, and the interval is not published.
        SourceUnreachableError: A broker does not answer, and the interval is not published.
        OffsetOutOfRangeError: Retention deleted records of the interval, or may have.
        EmptyUnprovenError: Nothing would be read, and nothing shows that there is nothing.
        SourceReplacedError: The published version was built from another topic or file of that
            name.
        ConflictError: The interval is published from another fingerprint.
        RootError: Nobody has made the publication root.
        UnsuitableStoreError: The publication root cannot publish atomically.
        QuotaExceededError: The landing area or the publication root has too little space.
        MemoryLimitError: The data set has more fields than ``memory_bytes`` has room for.
    """
    started = time.perf_counter()
    _require_reasons(rebuild=rebuild, allow_gap=allow_gap)
    require_function(spec)
    require_closed(spec, interval, datetime.now(UTC))
    folder = DatasetFolder(Path(env.root), spec.name)
    require_root(folder.root, env.root_setting)
    _probe(folder)
    record_schedule(folder, spec.schedule_model())
    asked = _Asked(rebuild, allow_gap)
    found, verdict, note = _find(spec, interval, env, folder, asked)
    if isinstance(found, Skip):
        return _skipped(folder, write_skip(folder, found), started)
    if verdict == "build":
        require_room_for_fields(spec)
    keep_code(folder, spec)
    faults.point("plan.after_save")
    if verdict == "build" and checks_space:
        require_space(spec, found, env)
    seconds = round(time.perf_counter() - started, 3)
    logger.info("plan %s/%s: %s in %.1f s", spec.name, interval.name, verdict, seconds)
    return _report(found, verdict) | {"seconds": seconds, **note}


class _Asked(NamedTuple):
    """The reasons that came with the request."""

    rebuild: str | None
    allow_gap: str | None


class _FoundPlan(NamedTuple):
    """What the planner came to: a plan or a skip, its verdict, and what is said of it besides."""

    what: Plan | Skip
    verdict: str
    note: dict[str, str] = {}  # noqa: RUF012 - read only


def _find(
    spec: DatasetSpec, interval: Interval, env: Environment, folder: DatasetFolder, asked: _Asked
) -> _FoundPlan:
    """Ask the source; when it is away, the published version speaks for itself."""
    try:
        with reader_of(spec).open(spec, env, folder, interval) as source:
            return _decide(Planner(spec, interval, env, folder), source, asked)
    except TrainFeedError as error:
        if asked.rebuild is not None or not is_away(error):
            raise
        plan = Planner(spec, interval, env, folder).identical(PublishedInputs(error), None)
        if plan is None:
            raise
        return _FoundPlan(plan, "identical", _not_compared(plan, error))


def _decide(planner: Planner, source: Inputs, asked: _Asked) -> _FoundPlan:
    """Return the plan of the published version, the decision to skip, or a new plan."""
    published = planner.identical(source, asked.rebuild)
    if published is not None:
        note = _spent_reason(published) if asked.rebuild is not None else {}
        return _FoundPlan(published, "identical", note)
    skip = planner.skip(source)
    if skip is not None:
        return _FoundPlan(skip, "skipped")
    plan = planner.make(source, rebuild=asked.rebuild, allow_gap=asked.allow_gap)
    return _FoundPlan(plan, "build")


def _report(found: Plan, verdict: str) -> dict[str, Any]:
    """Return the reference of a plan, and its tasks by stage."""
    units: dict[str, Sized] = {
        "ingest": found.ingest,
        "preprocess": found.preprocess,
        "convert": found.convert,
    }
    return {
        **found.ref().to_json(),
        "generation": generation_name(found.generation),
        "verdict": verdict,
        **{stage: [{"unit": unit} for unit in range(len(units[stage]))] for stage in _STAGES},
        **_emptiness(found),
    }


def _skipped(folder: DatasetFolder, skip: Skip, started: float) -> dict[str, Any]:
    """Return what is said of an interval that is left out: there is no plan and no task."""
    note = (
        f"the interval is left out (source.logs.missing: skip): {skip.why}; nothing was read or"
        f" published; {folder.skip(skip.interval)} says so; when the logs have come, build it by"
        " hand"
    )
    logger.warning("plan %s/%s: %s", folder.name, skip.interval, note)
    return {
        "dataset": folder.name,
        "interval": skip.interval,
        "verdict": "skipped",
        **{stage: [] for stage in _STAGES},
        "seconds": round(time.perf_counter() - started, 3),
        "note": note,
    }


def _not_compared(found: Plan, error: TrainFeedError) -> dict[str, str]:
    """Return what is said of a version that was found identical without its source."""
    note = (
        f"{generation_name(found.generation)} is published from this code, specification and"
        f" lookups; its source was not compared: {type(error).__name__}: {error}"
    )
    logger.warning("plan %s/%s: %s", found.dataset, found.interval["name"], note)
    return {"note": note}


def _spent_reason(found: Plan) -> dict[str, str]:
    """Return what is said to whoever asks for a rebuild that took place: a reason counts once."""
    note = (
        f"{generation_name(found.generation)} was built for this reason already, nothing is built;"
        " to build again give another, with the date for instance"
    )
    logger.warning("plan %s/%s: %s", found.dataset, found.interval["name"], note)
    return {"note": note}


def _emptiness(found: Plan) -> dict[str, Any]:
    """Return what is said of an interval with nothing to read."""
    if not found.empty_because:
        return {}
    why = first_few([f"{source}: {reason}" for source, reason in found.empty_because.items()])
    logger.warning("plan %s/%s: nothing to read (%s)", found.dataset, found.interval["name"], why)
    return {"empty_because": found.empty_because}


def _probe(folder: DatasetFolder) -> None:
    """Refuse a file system, or a quota border, on which publishing would not be one rename."""
    versions = folder.path / "versions"
    posix.make_public_dir(versions)
    with posix.map_errors(folder.staging):
        make_folders(folder.staging)
    posix.probe(folder.staging, into=versions)


def _require_reasons(**reasons: str | None) -> None:
    for name, reason in reasons.items():
        if reason is not None and not reason.strip():
            raise ConfigError(f"expected a reason for {name}, got {reason!r}; say why")
