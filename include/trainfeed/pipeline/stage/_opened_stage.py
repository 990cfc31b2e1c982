"""A stage at work on a plan: its files and version, and the comparison of its code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Manifest, Version, require_writable_root
from trainfeed.dataset.retire import retirement_of
from trainfeed.dataset.withdraw import withdrawal_of
from trainfeed.errors import CodeChangedError, ConflictError, WithdrawnError
from trainfeed.pipeline._ref import Build
from trainfeed.pipeline.plans import Plan, PlannedShard, load_plan, told_changes
from trainfeed.specification import DatasetSpec, fingerprint_fields
from trainfeed.storage import Location
from trainfeed.usercode import code_texts, digest_of_texts, running_libraries

__all__ = [
    "Stage",
    "kept",
]

_SPILL: Final = "spill"


@dataclass(frozen=True)
class Stage:
    """A stage at work on a plan.

    Attributes:
        spec: The data set.
        env: Folders and connections.
        plan: The plan.
    """

    spec: DatasetSpec
    env: Environment
    plan: Plan

    @classmethod
    def open(cls, build: Build) -> Stage:
        """Load the plan of a build."""
        folder = DatasetFolder(Path(build.env.root), build.ref.dataset)
        require_writable_root(build.env)
        return cls(build.spec, build.env, load_plan(folder, build.ref))

    @cached_property
    def plan_sha256(self) -> str:
        """The digest of the plan, which takes long for thousands of ranges."""
        return self.plan.sha256()

    @property
    def folder(self) -> DatasetFolder:
        """The data set below the publication root."""
        return DatasetFolder(Path(self.env.root), self.plan.dataset)

    @property
    def version_path(self) -> Path:
        """The folder of the version, once it is published."""
        return self.folder.version(self.plan.interval["name"], self.plan.generation)

    @property
    def staged(self) -> Path:
        """Where the version grows until then."""
        return self.folder.staged(self.plan.plan_id)

    @property
    def landing(self) -> Location:
        """The landing area, shared by all data sets."""
        return Location.parse(self.env.landing)

    @property
    def spill(self) -> Location:
        """The folder of spill files of this plan."""
        return Location.parse(self.env.work) / _SPILL / self.plan.plan_id

    def spill_file(self, group: int) -> Location:
        """The file of sorted samples of a task of ``preprocess``."""
        return self.spill / f"{group:05d}.arrow"

    def quarantine_file(self, group: int) -> Location:
        """The file of quarantined records of a task of ``preprocess``."""
        return self.spill / f"{group:05d}.quarantine.arrow"

    @property
    def labels_file(self) -> Location:
        """The file of the labels of the interval, for data sets with uploads."""
        return self.spill / "labels.arrow"

    def used_labels_file(self, group: int) -> Location:
        """The file that says which labels a task of ``preprocess`` used."""
        return self.spill / f"{group:05d}.labels.arrow"

    def part_file(self, shard: PlannedShard) -> Location:
        """The file about a written shard: digests, chunks, positions, statistics."""
        return self.spill / f"{self.plan.shard_name(shard)}.part.arrow"

    @property
    def verdict_file(self) -> Location:
        """The file with the verdict of ``check``."""
        return self.spill / "check.json"

    def published(self) -> Version | None:
        """Return the version of this plan, or None while it is not published.

        Raises:
            ConflictError: The generation has another fingerprint, or was removed.
            WithdrawnError: It was withdrawn.
        """
        mark = withdrawal_of(self.folder, self.plan.interval["name"], self.plan.generation)
        if mark is not None:
            raise WithdrawnError(
                f"{mark.told}; this run goes no further with it, and readers do not get it; if it"
                f" is right after all: trainfeed restore {mark.name} --why WHY; else correct the"
                " cause, and start a new run"
            )
        if self.folder.is_removed(self.plan.interval["name"], self.plan.generation):
            raise ConflictError(self._removed())
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

    def _removed(self) -> str:
        """Return why the generation of the plan is never published again."""
        interval = self.plan.interval["name"]
        retired = retirement_of(self.folder, interval)
        if retired is None:
            return (
                f"{self.version_path} was removed, or given up as a plan that nobody went on with;"
                " its number is never used again; run the build again"
            )
        return (
            f"{self.plan.dataset}/{retired.told}; plan {self.plan.plan_id} ended with it, and is"
            " never published; a build with a reason makes the interval again: trainfeed build"
            f" {self.plan.dataset} --interval {interval} --rebuild 'WHY'"
        )

    def check_code(self) -> Mapping[str, bytes]:
        """Compare code, spec and libraries with those of the plan; return the code that was read.

        Raises:
            CodeChangedError: They differ, so the version would not match its fingerprint.
        """
        texts = code_texts(self.spec)
        code = digest_of_texts(texts)
        running = {
            "code": code,
            "spec": fingerprint_fields(self.spec, self.plan.rules),
            **running_libraries(),
        }
        spec = self.plan.fingerprint_of["spec"]
        planned = {"code": self.plan.code["digest"], "spec": spec, **self.plan.libraries}
        changes, difference = told_changes(self.folder, texts, planned, running)
        if changes:
            raise CodeChangedError(
                f"code changed since plan {self.plan.plan_id} was made ({changes});"
                f" {kept(self.spec)}; build the interval again (in Airflow: trigger a new run)"
                f"{difference}"
            )
        return texts


def kept(spec: DatasetSpec) -> str:
    """Return the part of a message about kept files: landing files only if there are any."""
    nothing = "nothing was published"
    return f"landing files are kept, {nothing}" if spec.source.kind.lands else nothing
