"""The frame of every stage: open the plan, compare the code, work, and record how it ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Literal, TypeVar

from trainfeed.core import faults
from trainfeed.core.intervals import format_time
from trainfeed.core.patience import Patience
from trainfeed.core.printable_text import printable, without_secrets
from trainfeed.errors import (
    CodeChangedError,
    ConflictError,
    FileReplacedError,
    FormatError,
    GateError,
    NonDeterminismError,
    NotFoundError,
    Outcome,
    QuotaExceededError,
    RetiredError,
    StorageError,
    TrainFeedError,
    WindowOpenError,
    WithdrawnError,
)
from trainfeed.files.stores import posix
from trainfeed.pipeline.reports import Build, PublishedBefore, StageReport
from trainfeed.pipeline.stage import Stage, full
from trainfeed.versions import DatasetFolder, Unpublished, lift_unpublished, write_unpublished
from trainfeed.versions.waive import lift_refused

# --- Records in the folder of a data set why an attempt at an interval did not publish it

logger = logging.getLogger(__name__)

_MOST_CHARS: Final = 1_000


@contextmanager
def recorded_end(
    folder: DatasetFolder, interval: str, work: str, plan: str | None = None
) -> Iterator[None]:
    """Record the error of the block as the end of the last attempt, and raise it.

    Of a withdrawn or retired interval nothing is recorded: its state is the decision.

    Args:
        folder: The data set.
        interval: Name of the interval.
        work: The part of the build: ``logs``, ``plan`` or a stage.
        plan: Id of the plan, or None before there is one.
    """
    try:
        yield
    except (RetiredError, WithdrawnError):
        # What a person decided is the state of the interval: a refusal by it is no failure.
        raise
    except Exception as error:
        # The time of an interval that is not over yet follows from clock and specification.
        if not (isinstance(error, WindowOpenError) and error.ready_at):
            _record(folder, _ended(interval, work, plan, error))
        raise


def lift_end(folder: DatasetFolder, interval: str) -> None:
    """Remove the record of an interval, if there is one: a new attempt begins, or a version is out.

    Args:
        folder: The data set.
        interval: Name of the interval.
    """
    try:
        lift_unpublished(folder, interval)
    except (TrainFeedError, OSError) as error:
        place = folder.unpublished(interval)
        logger.warning("%s was not removed, the next run will: %s", place, error)


def _record(folder: DatasetFolder, ended: Unpublished) -> None:
    try:
        write_unpublished(folder, ended)
    except (TrainFeedError, OSError) as error:
        place = folder.unpublished(ended.interval)
        logger.warning("trainfeed status will not name this error: %s: %s", place, error)


def _ended(interval: str, work: str, plan: str | None, error: Exception) -> Unpublished:
    first, *_ = str(error).splitlines() or [""]
    now = datetime.now(UTC).replace(microsecond=0)
    return Unpublished(
        interval=interval,
        since=format_time(now),
        work=work,
        plan=plan,
        outcome=_outcome(error),
        error=type(error).__name__,
        why=printable(without_secrets(first))[:_MOST_CHARS],
    )


def _outcome(error: Exception) -> Literal["failed", "retry", "waiting"]:
    if isinstance(error, WindowOpenError):
        return "waiting"
    is_passing = isinstance(error, TrainFeedError) and error.outcome is Outcome.RETRY
    return "retry" if is_passing else "failed"


# --- What a missing or damaged work file leads to: the next build makes all of them anew


@contextmanager
def measured_again(stage: Stage) -> Iterator[None]:
    """Have the next build make all work files anew if the block finds one missing or damaged.

    The block reads work files and nothing else: another file that is damaged, such as one of a
    version to compare with, says nothing about them.
    """
    try:
        yield
    except (FormatError, GateError, NotFoundError):
        lift_refused(stage.folder, stage.plan.interval["name"], stage.plan.plan_id)
        raise


# --- The frame of every stage: open the plan, look whether it is published, compare the code, work

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
    """Do the work; repeat it after a pause while a server of a file system restarts."""

    def once() -> _Report:
        with posix.map_errors(stage.folder.path):
            return work(stage)

    return PATIENCE.call(once, name)


def _may_pass(error: Exception) -> float | None:
    """Return 0 for an error after which the work is repeated, None for every other one.

    A second run of the same plan replaces the work files by equal ones. HDFS then fails to read the
    old ones to the end (FileReplacedError), so the work is repeated for that error, too.
    """
    is_passing = isinstance(error, StorageError) and error.is_outage
    return 0.0 if is_passing or isinstance(error, FileReplacedError) else None


# Pauses of 1, 2, 4 and 8 s for a NameNode or DataNode that restarts, which takes some seconds.
PATIENCE: Final = Patience(calls=5, first_pause_s=1, asked=_may_pass)


def _published(stage: Stage, name: str) -> PublishedBefore | None:
    version = stage.published()
    return None if version is None else PublishedBefore(stage=name, version=version.name)
