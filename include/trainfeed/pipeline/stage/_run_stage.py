"""What every stage does before and after its work: find the plan, compare the code, look first.

A stage whose plan is published returns at once: cleared runs re-execute old mapped tasks, and of
two runs of one interval the slower one meets a version that is already there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from trainfeed import faults
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Manifest, Version, require_root
from trainfeed.errors import (
    CodeChangedError,
    ConflictError,
    NonDeterminismError,
    QuotaExceededError,
    StorageError,
    TrainFeedError,
)
from trainfeed.pipeline._ref import Build
from trainfeed.pipeline._stage_reports import PublishedBefore, StageReport
from trainfeed.pipeline.plans import Plan, PlannedShard, load_plan, told_changes
from trainfeed.pipeline.stage._full import full
from trainfeed.pipeline.stage._what_is_kept import kept
from trainfeed.specification import DatasetSpec, fingerprint_fields
from trainfeed.storage import Location, posix
from trainfeed.usercode import code_digest, running_libraries

__all__ = ["Stage", "run_stage", "unit_of"]

logger = logging.getLogger(__name__)

_SPILL: Final = "spill"
# A NameNode or DataNode that is started again is back within some seconds.
_PAUSES_S: Final = (1, 2, 4, 8)
_Unit = TypeVar("_Unit")
_Report = TypeVar("_Report", bound=StageReport)


@dataclass(frozen=True)
class Stage:
    """One stage at work on one plan.

    Attributes:
        spec: The data set.
        env: Where things are.
        plan: The plan.
    """

    spec: DatasetSpec
    env: Environment
    plan: Plan

    @classmethod
    def open(cls, build: Build) -> Stage:
        """Load the plan of a build."""
        folder = DatasetFolder(Path(build.env.root), build.ref.dataset)
        require_root(folder.root, build.env.root_setting)
        return cls(build.spec, build.env, load_plan(folder, build.ref))

    @property
    def folder(self) -> DatasetFolder:
        """The data set below the publication root."""
        return DatasetFolder(Path(self.env.root), self.plan.dataset)

    @property
    def version_path(self) -> Path:
        """Where the version will be."""
        return self.folder.version(self.plan.interval["name"], self.plan.generation)

    @property
    def landing(self) -> Location:
        """The landing area, shared by all data sets."""
        return Location.parse(self.env.landing)

    @property
    def spill(self) -> Location:
        """The folder of spill files of this plan."""
        return Location.parse(self.env.work) / _SPILL / self.plan.plan_id

    def spill_file(self, group: int) -> Location:
        """The sorted samples of one split group."""
        return self.spill / f"{group:05d}.arrow"

    def quarantine_file(self, group: int) -> Location:
        """The rejected records of one split group."""
        return self.spill / f"{group:05d}.quarantine.arrow"

    def part_file(self, shard: PlannedShard) -> Location:
        """What is known of a written shard: digests, chunks, positions, statistics."""
        return self.spill / f"{self.plan.shard_name(shard)}.part.arrow"

    @property
    def verdict_file(self) -> Location:
        """What ``check`` found."""
        return self.spill / "check.json"

    def published(self) -> Version | None:
        """Return the version of this plan, or None while it is not published.

        Raises:
            ConflictError: The generation exists, made from another fingerprint, or is removed.
        """
        if self.folder.is_removed(self.plan.interval["name"], self.plan.generation):
            raise ConflictError(
                f"{self.version_path} was published by this plan and has been removed; its number"
                " is never used again; run the build again"
            )
        if not (self.version_path / "MANIFEST.json").is_file():
            return None
        manifest, digest = Manifest.read(self.version_path)
        if manifest.fingerprint != self.plan.fingerprint:
            raise ConflictError(
                f"{self.version_path} was published by plan {manifest.plan} while plan"
                f" {self.plan.plan_id} was at work; the published version stays, nothing of this"
                " run is visible; run the build again"
            )
        return Version(self.version_path, manifest, digest)

    def check_code(self) -> None:
        """Compare code, spec and libraries with those of the plan.

        Raises:
            CodeChangedError: They differ; publishing would put new code under an old name.
        """
        digest, _ = code_digest(self.spec)
        running = {"code": digest, "spec": fingerprint_fields(self.spec), **running_libraries()}
        spec = self.plan.fingerprint_of["spec"]
        planned = {"code": self.plan.code["digest"], "spec": spec, **self.plan.libraries}
        changes, code = told_changes(self.folder, self.spec, planned, running)
        if changes:
            raise CodeChangedError(
                f"code changed since plan {self.plan.plan_id} was made ({changes});"
                f" {kept(self.spec)}; build the interval again (in Airflow: trigger a new run)"
                f"{code}"
            )


def unit_of(units: Sequence[_Unit], unit: int) -> _Unit:
    """Return the work of one task.

    Raises:
        CodeChangedError: There is none: the plan was exchanged for one with other tasks.
    """
    if not 0 <= unit < len(units):
        raise CodeChangedError(
            f"the plan has {len(units)} tasks of this stage, none with number {unit}: it was made"
            " anew while this run was at work; landing files are kept; run the build again"
        )
    return units[unit]


def run_stage(
    name: str,
    build: Build,
    work: Callable[[Stage], _Report],
) -> _Report | PublishedBefore:
    """Do ``work`` unless the plan is published, and report what was done.

    Args:
        name: The stage, for reports and logs.
        build: The build.
        work: Gets the opened stage, returns the report, whose ``seconds`` are filled in here.
    """
    started = time.perf_counter()
    stage = Stage.open(build)
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
        # These speak of what is published; that it is there is no way out of them.
        raise
    except TrainFeedError as error:
        # Another run may have published this plan meanwhile and taken the staging folder along.
        if report := _published(stage, name):
            logger.info("%s gave way to a version published meanwhile: %s", name, error)
            return report
        if isinstance(error, QuotaExceededError):
            raise full(stage.spec, stage.plan, stage.env, error) from error
        raise


def _patiently(stage: Stage, name: str, work: Callable[[Stage], _Report]) -> _Report:
    """Do the work, again after a pause while a server of a file system restarts."""
    for pause_s in (*_PAUSES_S, None):
        try:
            with posix.map_errors(stage.folder.path):
                return work(stage)
        except StorageError as error:
            if pause_s is None or not error.is_outage:
                raise
            logger.warning("%s: %s; trying again in %d s", name, error, pause_s)
            _pause(pause_s)
    raise AssertionError


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def _published(stage: Stage, name: str) -> PublishedBefore | None:
    version = stage.published()
    return None if version is None else PublishedBefore(stage=name, version=version.name)
