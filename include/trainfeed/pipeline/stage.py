"""A stage at work on a plan: its files and version, the comparison of its code, and its space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

from trainfeed.core.config import Environment
from trainfeed.errors import (
    CodeChangedError,
    ConflictError,
    QuotaExceededError,
    TrainFeedError,
    WithdrawnError,
)
from trainfeed.files.stores import Location
from trainfeed.functions import code_texts, digest_of_texts, running_libraries
from trainfeed.pipeline.code_copies import told_changes
from trainfeed.pipeline.landed_ranges import landing_file
from trainfeed.pipeline.members import plan_of_member, spec_of
from trainfeed.pipeline.parameters import interval_spec
from trainfeed.pipeline.plans import Plan, PlannedShard, Unit, load_plan, unit_of_input
from trainfeed.pipeline.reports import Build
from trainfeed.specification import DatasetSpec, fingerprint_fields
from trainfeed.versions import DatasetFolder, Manifest, Version, require_root
from trainfeed.versions.file_list import Listed
from trainfeed.versions.order import member_source, split_member
from trainfeed.versions.retire import retirement_of
from trainfeed.versions.withdraw import withdrawal_of

# --- A stage at work on a plan: its files and version, and the comparison of its code

T = TypeVar("T")

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
        # Not followed: ``plan`` has, ``publish`` will, and workers have no keys of a store.
        build.env.refuse_public_root()
        require_root(build.env.root, build.env.root_setting)
        plan = load_plan(folder, build.ref)
        spec = interval_spec(build.spec, folder, plan.times)
        return cls(spec, build.env, plan)

    @cached_property
    def _members(self) -> dict[str, Stage]:
        return {
            name: Stage(spec, self.env, plan_of_member(self.plan, name))
            for name, spec in self.spec.members.items()
        }

    def of_member(self, member: str) -> Stage:
        """Return what readers get of one member of a union: its source alone, and its inputs."""
        if member not in self._members:
            spec_of(self.spec, member_source(member, "source"))  # says which members there are
        return self._members[member]

    def of_source(self, source: str) -> Stage:
        """Return ``of_member`` of the member that a source string names; else the stage itself."""
        member, _ = split_member(source)
        return self if member is None else self.of_member(member)

    def lands(self, source: str) -> bool:
        """Whether the records of a source are copied into landing files."""
        return self.of_source(source).spec.source.kind.lands

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


# --- Estimates the space that a build needs, and makes the error for a full disk or quota

# No estimate for an interval more than so many times larger than the version: in a small version,
# the fixed cost per version would count too much.
_MAX_FACTOR: Final = 20


@dataclass(frozen=True)
class Experience:
    """The bytes of a published version per planned position, to estimate others from.

    Attributes:
        version: Name of the version, as in ``2013-01-01/g0001``.
        positions: Planned positions: offsets, or bytes of log files.
        read_bytes: Bytes of records per planned position.
        published_bytes: Bytes of the version's files per planned position.
    """

    version: str
    positions: int
    read_bytes: float
    published_bytes: float

    @classmethod
    def for_plan(cls, plan: Plan, root: str) -> Experience | None:
        """Return the values of the newest readable version of the plan's unit of positions.

        None if there is none, if it is too small, and for a plan of offsets and bytes.

        Args:
            plan: The plan of the build.
            root: The publication root.
        """
        unit = _unit(plan.inputs, lambda planned: planned.unit)
        if plan.inputs and unit is None:
            return None
        found = cls._newest(DatasetFolder(Path(root), plan.dataset), unit)
        return found if found is not None and plan.span <= _MAX_FACTOR * found.positions else None

    @classmethod
    def _newest(cls, folder: DatasetFolder, unit: Unit | None) -> Experience | None:
        for interval in reversed(folder.intervals()):
            generation = folder.readable_generation(interval)
            if generation is None:
                continue
            try:
                version = Version.resolve(folder, interval, generation)
                if unit not in {None, _unit(version.manifest.inputs, unit_of_input)}:
                    continue
                found = cls._of(version)
            except TrainFeedError:
                continue  # a damaged version must not prevent a build
            if found is not None:
                return found
        return None

    @classmethod
    def _of(cls, version: Version) -> Experience | None:
        manifest = version.manifest
        positions = manifest.span
        if not positions:
            return None
        read = manifest.bytes_read
        written = sum(num_bytes for num_bytes, _ in manifest.file_digests().values())
        return cls(version.name, positions, read / positions, written / positions)


def _unit(inputs: Mapping[str, T], unit_of: Callable[[T], Unit]) -> Unit | None:
    """Return the unit of all positions; None if there are two, or no inputs."""
    if isinstance(inputs, Listed):
        return "bytes"
    units = set(map(unit_of, inputs.values()))
    return units.pop() if len(units) == 1 else None


@dataclass(frozen=True)
class Space:
    """Needed and free space of a place.

    Attributes:
        place: landing or root.
        uri: URI of the place.
        needed_bytes: About how many bytes the build writes there; None if unknown.
        free_bytes: Free bytes; None if the file system does not tell.
    """

    place: str
    uri: str
    needed_bytes: int | None
    free_bytes: int | None


def landed_bytes(stage: Stage) -> dict[int, int]:
    """Return index of a range → size of its landing file, for those that already exist."""
    sizes: dict[int, int] = {}
    if not stage.spec.source.kind.lands:
        return sizes
    for index, piece in enumerate(stage.plan.ranges):
        if not stage.lands(piece.source):
            continue
        file = landing_file(stage.landing, stage.plan.inputs[piece.source], piece)
        if file.exists():
            sizes[index] = file.stat().size_bytes
    return sizes


def space(stage: Stage, landed: Mapping[int, int]) -> list[Space]:
    """Return needed and free space of the landing area and the root.

    Args:
        stage: A stage of the build.
        landed: Sizes from ``landed_bytes``.
    """
    plan, env = stage.plan, stage.env
    experience = Experience.for_plan(plan, env.root)
    landing = root = None
    if not stage.spec.source.kind.lands:
        landing = 0
    elif experience is not None:
        pieces = [each for each in enumerate(plan.ranges) if stage.lands(each[1].source)]
        missing = [piece for index, piece in pieces if index not in landed]
        to_land = sum(piece.end - piece.start for piece in missing)
        landing = round(to_land * experience.read_bytes)
    if experience is not None:
        root = round(plan.span * experience.published_bytes)
    return [
        Space(place, uri, needed, _free_bytes(uri))
        for place, uri, needed in (("landing", env.landing, landing), ("root", env.root, root))
    ]


def require_space(stage: Stage) -> None:
    """Refuse a build that does not fit into the free space.

    Raises:
        QuotaExceededError: A place has less free space than the estimate.
    """
    for place in space(stage, landed_bytes(stage)):
        needed, free = place.needed_bytes, place.free_bytes
        if needed is not None and free is not None and needed > free:
            raise QuotaExceededError(
                f"expected about {needed} bytes of space in {place.uri} ({place.place}),"
                f" going by the newest version of {stage.plan.dataset!r}, got {free} bytes free;"
                " nothing was read or written but the plan; make room, then run the build again"
            )


def _free_bytes(uri: str) -> int | None:
    """Return the free space of the nearest folder above that exists."""
    location = Location.parse(uri)
    while location.path != "/" and not location.exists():
        location = location.parent
    return location.free_bytes()


def full(stage: Stage, error: QuotaExceededError) -> QuotaExceededError:
    """Return the error of a build from the error of the file that did not fit."""
    places = space(stage, landed_bytes(stage))
    lines = [_line(each.place, each.needed_bytes, each.free_bytes) for each in places]
    work = _line("work", None, Location.parse(stage.env.work).free_bytes())
    landing = "landing files of this run, " if stage.spec.source.kind.lands else ""
    return QuotaExceededError(
        f"{error}; kept: {landing}the plan and every published version; nothing was published;"
        f" {'; '.join([*lines, work])}; make room and build the interval again, it goes on from"
        " there"
    )


def _line(place: str, needed: int | None, free: int | None) -> str:
    want = "an unknown number of" if needed is None else f"about {needed}"
    return f"{place}: {want} bytes needed in all, {'unknown' if free is None else free} free"
