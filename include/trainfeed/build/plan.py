"""Stage ``plan``: fix what an interval reads and makes, before anything is read.

The plan's name is made of the fingerprint and the planned generation, so two runs of one interval
meet at one plan. When the interval is published from an equal fingerprint there is nothing to do:
the verdict is ``identical``.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trainfeed import faults
from trainfeed.build._closed import require_closed
from trainfeed.build._inputs import open_inputs
from trainfeed.build._kept_code import keep_code
from trainfeed.build._plan_file import Plan
from trainfeed.build._planner import Planner
from trainfeed.build._signature import require_function
from trainfeed.build._space import require_space
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Skip, record_schedule, require_root, write_skip
from trainfeed.dataset.layout import generation_name
from trainfeed.errors import ConfigError
from trainfeed.spec import DatasetSpec
from trainfeed.storage import posix
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
        was asked for with the reason that the published version was built for. An interval that
        the specification leaves out has the verdict ``skipped``, a ``note``, no tasks, no plan and
        no generation.

    Raises:
        WindowOpenError: The interval has not ended and settled yet, or its folder of log files
            is not complete.
        LogsMissingError: Its folder of log files was not complete in time.
        TopicNotFoundError: A topic is not there.
        OffsetOutOfRangeError: Retention deleted records of the interval, or may have.
        SourceReplacedError: The published version was built from another topic or file of that
            name.
        ConflictError: The interval is published from another fingerprint.
        RootError: Nobody has made the publication root.
        UnsuitableStoreError: The publication root cannot publish atomically.
        QuotaExceededError: The landing area or the publication root has too little space.
    """
    started = time.perf_counter()
    _require_reasons(rebuild=rebuild, allow_gap=allow_gap)
    require_function(spec)
    require_closed(spec, interval, datetime.now(UTC))
    folder = DatasetFolder(Path(env.root), spec.name)
    require_root(folder.root, env.root_setting)
    _probe(folder)
    record_schedule(folder, spec.schedule_model())
    with open_inputs(spec, env, folder, interval) as source:
        planner = Planner(spec, interval, env, folder)
        found = planner.identical(source, rebuild)
        verdict = "build" if found is None else "identical"
        if found is None:
            if (skip := planner.skip(source)) is not None:
                return _skipped(folder, write_skip(folder, skip), started)
            found = planner.make(source, rebuild=rebuild, allow_gap=allow_gap)
    keep_code(folder, spec)
    note = _spent_reason(found) if verdict == "identical" and rebuild is not None else {}
    faults.point("plan.after_save")
    if verdict == "build" and checks_space:
        require_space(spec, found, env)
    seconds = round(time.perf_counter() - started, 3)
    logger.info("plan %s/%s: %s in %.1f s", spec.name, interval.name, verdict, seconds)
    return {
        **found.ref().to_json(),
        "generation": generation_name(found.generation),
        "verdict": verdict,
        **{
            stage: [{"unit": unit} for unit in range(len(units))]
            for stage, units in zip(
                _STAGES, (found.ingest, found.preprocess, found.convert), strict=True
            )
        },
        "seconds": seconds,
        **note,
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


def _spent_reason(found: Plan) -> dict[str, str]:
    """Return what is said to whoever asks for a rebuild that took place: a reason counts once."""
    note = (
        f"{generation_name(found.generation)} was built for this reason already, nothing is built;"
        " to build again give another, with the date for instance"
    )
    logger.warning("plan %s/%s: %s", found.dataset, found.interval["name"], note)
    return {"note": note}


def _probe(folder: DatasetFolder) -> None:
    """Refuse a file system, or a quota border, on which publishing would not be one rename."""
    versions = folder.path / "versions"
    posix.make_public_dir(versions)
    with posix.map_errors(folder.staging):
        folder.staging.mkdir(exist_ok=True)
    posix.probe(folder.staging, into=versions)


def _require_reasons(**reasons: str | None) -> None:
    for name, reason in reasons.items():
        if reason is not None and not reason.strip():
            raise ConfigError(f"expected a reason for {name}, got {reason!r}; say why")
