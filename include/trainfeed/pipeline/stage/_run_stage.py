"""The frame of every stage: open the plan, look whether it is published, compare the code, work.

A stage whose plan is published returns at once. This happens when a run is cleared, because old
mapped tasks run again, and when a second run of the interval has been faster.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from trainfeed import faults
from trainfeed.errors import (
    CodeChangedError,
    ConflictError,
    FileReplacedError,
    NonDeterminismError,
    QuotaExceededError,
    StorageError,
    TrainFeedError,
)
from trainfeed.pipeline._ref import Build
from trainfeed.pipeline._stage_reports import PublishedBefore, StageReport
from trainfeed.pipeline.stage._opened_stage import Stage
from trainfeed.pipeline.stage._recorded_end import recorded_end
from trainfeed.pipeline.stage._space import full
from trainfeed.storage import posix

__all__ = ["run_stage", "unit_of"]

logger = logging.getLogger(__name__)

# Pauses for a NameNode or DataNode that restarts, which takes some seconds.
_PAUSES_S: Final = (1, 2, 4, 8)
_Unit = TypeVar("_Unit")
_Report = TypeVar("_Report", bound=StageReport)


def unit_of(units: Sequence[_Unit], unit: int) -> _Unit:
    """Return the work of one task.

    Raises:
        CodeChangedError: The plan has no such task: it was replaced by one with other tasks.
    """
    if not 0 <= unit < len(units):
        raise CodeChangedError(
            f"the plan has {len(units)} tasks of this stage, none with number {unit}: it was made"
            " again while this run was at work; landing files are kept; run the build again"
        )
    return units[unit]


def run_stage(
    name: str,
    build: Build,
    work: Callable[[Stage], _Report],
) -> _Report | PublishedBefore:
    """Do ``work`` unless the plan is published, and return its report.

    Args:
        name: The stage, for reports and logs.
        build: The build.
        work: Gets the opened stage and returns the report; ``seconds`` is set here.
    """
    started = time.perf_counter()
    stage = Stage.open(build)
    with recorded_end(stage.folder, build.ref.interval, name, build.ref.plan_id):
        report: _Report | PublishedBefore | None = _published(stage, name)
        if report is not None:
            logger.info("%s %s: nothing to do, published before", name, _version_name(stage))
        else:
            report = _attempt(stage, name, work)
            logger.info(
                "%s %s: %s in %.1f s", name, _version_name(stage), report.verdict, _since(started)
            )
    return replace(report, seconds=_since(started))


def _version_name(stage: Stage) -> str:
    return f"{stage.plan.dataset}/{stage.plan.interval['name']}/{stage.version_path.name}"


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 3)


def _attempt(
    stage: Stage, name: str, work: Callable[[Stage], _Report]
) -> _Report | PublishedBefore:
    stage.check_code()
    faults.point(f"{name}.start")
    try:
        return _patiently(stage, name, work)
    except (ConflictError, NonDeterminismError):
        # These errors are about the published version itself, so its presence does not solve them.
        raise
    except TrainFeedError as error:
        # Another run may have published this plan meanwhile: its rename took the staging folder
        # away, and that is the cause of the error.
        if report := _published(stage, name):
            logger.info("%s gave way to a version published meanwhile: %s", name, error)
            return report
        if isinstance(error, QuotaExceededError):
            raise full(stage, error) from error
        raise


def _patiently(stage: Stage, name: str, work: Callable[[Stage], _Report]) -> _Report:
    """Do the work; repeat it after a pause while a server of a file system restarts.

    A second run of the same plan replaces the work files by equal ones. HDFS then fails to read the
    old ones to the end (FileReplacedError), so the work is repeated for that error, too.
    """
    for pause_s in (*_PAUSES_S, None):
        try:
            with posix.map_errors(stage.folder.path):
                return work(stage)
        except StorageError as error:
            if pause_s is None or not (error.is_outage or isinstance(error, FileReplacedError)):
                raise
            logger.warning("%s: %s; trying again in %d s", name, error, pause_s)
            _pause(pause_s)
    raise AssertionError


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def _published(stage: Stage, name: str) -> PublishedBefore | None:
    version = stage.published()
    return None if version is None else PublishedBefore(stage=name, version=version.name)
