"""Makes files of a version again, by the stages of its plan and with the code of its plan."""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from trainfeed.core import faults
from trainfeed.core.config import Environment
from trainfeed.errors import CodeChangedError
from trainfeed.files import listed, make_folders, open_plain
from trainfeed.files.stores import Location, posix
from trainfeed.functions import code_texts, digest_of_texts, lookup_digests, running_libraries
from trainfeed.pipeline import Build
from trainfeed.pipeline.check import check
from trainfeed.pipeline.code_copies import kept_lookup, told_changes
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.leftovers import REPAIR
from trainfeed.pipeline.parameters import interval_spec
from trainfeed.pipeline.plans import PLANS, Plan, PlannedShard
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.publish import STAGED_WRITERS, assemble
from trainfeed.pipeline.sorting.spill_files import ArrowWithTrailer
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version import ShardPart
from trainfeed.specification import SPEC_FILE, DatasetSpec, fingerprint_fields, load_spec
from trainfeed.upkeep.repair.damage import Effort
from trainfeed.versions import DatasetFolder, Version, init_root
from trainfeed.versions.layout import POSITIONS, generation_name
from trainfeed.versions.version import CHUNKS, STATISTICS

# --- Which version is repaired, from what


@dataclass(frozen=True)
class RepairOrder:
    """A version, and where its files may come from.

    Attributes:
        spec: The data set, as it is now.
        env: Folders and connections.
        folder: The data set below the publication root.
        interval: Name of the interval.
        generation: Number of the generation.
        backup: A folder with a copy of the version, or None.
    """

    spec: DatasetSpec
    env: Environment
    folder: DatasetFolder
    interval: str
    generation: int
    backup: Path | None

    @property
    def path(self) -> Path:
        """Folder of the version."""
        return self.folder.version(self.interval, self.generation)

    @property
    def target(self) -> str:
        """``<data set>/<interval>/<generation>``, as commands take it."""
        return f"{self.folder.name}/{self.interval}/{generation_name(self.generation)}"

    def offers(self) -> tuple[str, ...]:
        """Return what a person can do about files that could not be repaired, with commands."""
        code = self.folder.path / "code"
        build = f"trainfeed build {self.folder.name} --interval {self.interval} --rebuild WHY"
        backup = f"trainfeed repair {self.target} --from FOLDER"
        return (
            f"take the files from a snapshot or backup of the version: {backup}",
            f"put code, lookups and libraries of the plan back (text: {code}), and repair again",
            f"build a new generation: {build}",
        )


# --- The places in which files are made again: outside of the version, and removed at the end

_PREFIX: Final = "trainfeed-"
# What stages read besides the plan, its interval and the versions it refers to.
_READ: Final = (
    "boundaries", "code", "layouts", "lists", "lookups", "receipts", "snapshots", "uploads",
)  # fmt: skip


@dataclass(frozen=True)
class RepairPlace:
    """The places of one repair.

    Attributes:
        env: Folders and connections, with the temporary root and a work folder of its own.
        folder: The data set in the temporary root.
        staging: Where files grow, on the file system of the versions.
        scratch: A temporary folder of this machine.
    """

    env: Environment
    folder: DatasetFolder
    staging: Path
    scratch: Path

    def adopt(self, real: DatasetFolder, plan: Plan) -> None:
        """Give the temporary root a plan, with its waivers and the versions it refers to."""
        interval = plan.interval["name"]
        target = self.folder.plan(interval, plan.plan_id)
        posix.make_public_dir(target.parent)
        for path in listed(real.plans(interval), f"{plan.plan_id}.waive*.json"):
            shutil.copyfile(path, target.parent / path.name, follow_symlinks=False)
        PLANS.replace(target, plan)
        for other in {each.interval for each in plan.references} - {interval}:
            link = self.folder.interval(other)
            posix.make_public_dir(link.parent)
            if not link.is_symlink():
                link.symlink_to(real.interval(other), target_is_directory=True)


@contextmanager
def repair_place(env: Environment, real: DatasetFolder) -> Iterator[RepairPlace]:
    """Make the places of one repair, and remove them at the end; upkeep removes them after a kill.

    Args:
        env: Folders and connections.
        real: The data set.

    Raises:
        StorageError: The publication root or the work folder refused or failed.
    """
    name = f"{REPAIR}{uuid.uuid4().hex}"
    staging, work = real.staging / name, Location.parse(env.work) / "spill" / name
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as scratch:
        shadow = DatasetFolder(Path(scratch) / "root", real.name)
        init_root(shadow.root)
        posix.make_public_dir(staging)
        try:
            posix.make_public_dir(shadow.path)
            shadow.staging.symlink_to(staging, target_is_directory=True)
            for each in _READ:
                if (real.path / each).is_dir():
                    (shadow.path / each).symlink_to(real.path / each, target_is_directory=True)
            place = replace(env, root=str(shadow.root), bucket=None, work=work.uri)
            yield RepairPlace(place, shadow, staging, Path(scratch))
        finally:
            posix.remove_tree(staging)
            if work.exists():
                work.delete(recursive=True)


# --- Whether today's code, specification and lookups are those of a plan; kept lookups are data


def require_same_code(spec: DatasetSpec, folder: DatasetFolder, plan: Plan) -> None:
    """Refuse code or a specification that would not make the bytes of the plan.

    Raises:
        CodeChangedError: The code or the specification differs; the message says where.
    """
    spec = interval_spec(spec, folder, plan.times)
    texts = code_texts(spec)
    planned = {"code": plan.code["digest"], "spec": plan.fingerprint_of["spec"]}
    running = {"code": digest_of_texts(texts), "spec": fingerprint_fields(spec, plan.rules)}
    changes, code = told_changes(folder, texts, planned, running)
    if changes:
        files = code.strip().partition("\n")[0]
        raise CodeChangedError(
            f"code or specification are not those of plan {plan.plan_id}:"
            f" {'; '.join(filter(None, [changes, files]))}; its files cannot be made again with"
            f" what {spec.folder} has now"
        )


def spec_of_plan(
    spec: DatasetSpec, folder: DatasetFolder, plan: Plan, scratch: Path
) -> DatasetSpec:
    """Return a specification with the lookup files of a plan; ``spec`` if they are today's.

    Args:
        spec: The specification of now, with the code of the plan.
        folder: The data set, which keeps lookup files by their digests.
        plan: The plan.
        scratch: A temporary folder for a copy of the data set's folder.

    Raises:
        CodeChangedError: A lookup file differs, and its earlier content was not kept.
    """
    now = lookup_digests(spec)
    if now == plan.lookups:
        return spec
    if now.keys() != plan.lookups.keys():
        raise CodeChangedError(
            f"the lookups of plan {plan.plan_id} are {_names(plan.lookups)}, dataset.yaml has"
            f" {_names(now)} now; put it back to the state of that time"
        )
    target = scratch / "datasets" / spec.name
    _write(target / SPEC_FILE, _read(spec.folder / SPEC_FILE))
    for name, text in code_texts(spec).items():
        _write(target / name, text)
    for name, digest in plan.lookups.items():
        data = _read(spec.folder / spec.lookups[name]) if now[name] == digest else None
        place = target / spec.lookups[name]
        _write(place, _kept(folder, name, digest) if data is None else data)
    return load_spec(target)


def changed_libraries(plan: Plan) -> list[str]:
    """Return the libraries with another version than the plan's, as ``numpy 2.0 → 2.1``."""
    running = running_libraries()
    return [
        f"{name} {plan.libraries.get(name, 'none')} → {running.get(name, 'none')}"
        for name in sorted(running.keys() | plan.libraries.keys())
        if running.get(name) != plan.libraries.get(name)
    ]


def _kept(folder: DatasetFolder, name: str, digest: str) -> bytes:
    kept = kept_lookup(folder, digest)
    if kept.data is None:
        raise CodeChangedError(
            f"lookup {name!r} changed since the plan was made, and {kept.why_not}; put the file"
            f" with SHA-256 {digest} back"
        )
    return kept.data


def _names(lookups: Mapping[str, str]) -> str:
    return ", ".join(sorted(lookups)) or "none"


def _read(path: Path) -> bytes:
    with open_plain(path, follow=True) as file:
        return file.read()


def _write(path: Path, data: bytes) -> None:
    make_folders(path.parent)
    path.write_bytes(data)


# --- Why a file that was made again has other bytes than the published one


def other_bytes(version: Version, plan: Plan, name: str, made: Mapping[str, str]) -> str:
    """Return the cause, as far as it is known, and that nothing was changed.

    Args:
        version: The version.
        plan: Its plan.
        name: The file that was made again.
        made: Name of a shard that was made again → digest of its records.
    """
    libraries = ", ".join(changed_libraries(plan))
    if libraries:
        cause = f"the libraries have other versions than at that time: {libraries}"
    else:
        cause = (
            "the function is not a function of its record alone, or the landing files are not"
            " those of that time, as code, lookups and libraries are those of the plan"
        )
    return (
        f"made again with other bytes: {cause};{_same_records_note(version, name, made)}"
        " the damaged file was left as it is"
    )


def _same_records_note(version: Version, name: str, made: Mapping[str, str]) -> str:
    splits = version.manifest.splits.values()
    published = {shard.name: shard.records_sha256 for split in splits for shard in split.shards}
    is_same = name in made and made[name] == published.get(name)
    return " its records are the same, only stored otherwise;" if is_same else ""


# --- Makes files of a version again, by the stages of its plan, as far as these files need them

_OF_ALL_SHARDS: Final = frozenset({CHUNKS, POSITIONS, STATISTICS})


@dataclass(frozen=True)
class Rebuilt:
    """Files that were made again.

    Attributes:
        staged: The folder with the files.
        effort: What was computed.
        records_sha256: Name of a shard → digest of its records, without their compression.
    """

    staged: Path
    effort: Effort
    records_sha256: dict[str, str]


def makes(plan: Plan, name: str) -> bool:
    """Return whether stages make a file of this name: all but documents."""
    return name in STAGED_WRITERS or name in _shards_of(plan)


def rebuild(
    spec: DatasetSpec, real: DatasetFolder, plan: Plan, place: RepairPlace, names: Collection[str]
) -> Rebuilt:
    """Make files again, each of which ``makes`` knows.

    Landing files that are gone or damaged are landed again from the source.

    Args:
        spec: The data set, with the code of the plan.
        real: The data set below the publication root.
        plan: The plan of the version.
        place: Where to work.
        names: The files.

    Raises:
        TrainFeedError: The error of a stage, such as a source that is gone.
    """
    started = time.perf_counter()
    begun, units = _begin(spec, real, plan, place, names)
    effort = _prepared(begun, plan)
    for number in range(len(units)):
        convert(begun, number)
        faults.point("repair.after_shard")
    stage = Stage.open(begun)
    make_folders(stage.staged)
    for name in names:
        if name in STAGED_WRITERS:
            STAGED_WRITERS[name](stage)
    shards = [shard for unit in units for shard in unit]
    effort += Effort(shards=len(shards), seconds=time.perf_counter() - started)
    return Rebuilt(stage.staged, effort, _record_digests(stage, shards))


def rebuild_all(spec: DatasetSpec, real: DatasetFolder, plan: Plan, place: RepairPlace) -> Rebuilt:
    """Make the whole version again, with its manifest; gates are judged as at that time.

    Raises:
        TrainFeedError: The error of a stage.
    """
    started = time.perf_counter()
    begun, units = _begin(spec, real, plan, place, _OF_ALL_SHARDS)
    effort = _prepared(begun, plan)
    for number in range(len(units)):
        convert(begun, number)
    check(begun)
    stage = Stage.open(begun)
    assemble(stage)
    shards = plan.all_shards()
    effort += Effort(shards=len(shards), seconds=time.perf_counter() - started)
    return Rebuilt(stage.staged, effort, _record_digests(stage, shards))


def _begin(
    spec: DatasetSpec, real: DatasetFolder, plan: Plan, place: RepairPlace, names: Collection[str]
) -> tuple[Build, list[list[PlannedShard]]]:
    """Write the plan of the repair; return the build, and the shards of its tasks."""
    units = _units(plan, names)
    # Stages refuse other libraries than the plan's. Here the digest of the bytes decides.
    named = {plan.shard_name(shard) for unit in units for shard in unit}
    others = [shard for name, shard in _shards_of(plan).items() if name not in named]
    # The others have a task, too, that nobody runs: a plan without them would be refused.
    tasks = [*units, others] if others else units
    own = plan.model_copy(update={"libraries": running_libraries(), "convert": tasks})
    place.adopt(real, own)
    made = interval_spec(spec_of_plan(spec, real, plan, place.scratch), real, plan.times)
    return Build(made, place.env, plan.ref()), units


def _units(plan: Plan, names: Collection[str]) -> list[list[PlannedShard]]:
    if _OF_ALL_SHARDS & set(names):
        return plan.convert
    shards = _shards_of(plan)
    return [[shards[name]] for name in sorted(names) if name in shards]


def _shards_of(plan: Plan) -> dict[str, PlannedShard]:
    return {plan.shard_name(shard): shard for shard in plan.all_shards()}


def _prepared(begun: Build, plan: Plan) -> Effort:
    """Land what is missing, and preprocess all records."""
    reads = records = 0
    for unit in range(len(plan.ingest)):
        reads += ingest(begun, unit).source_reads
    faults.point("repair.after_ingest")
    for unit in range(len(plan.preprocess)):
        report = preprocess(begun, unit)
        reads += report.source_reads
        records += getattr(report, "records", 0)
    return Effort(records=records, source_reads=reads)


def _record_digests(stage: Stage, shards: Collection[PlannedShard]) -> dict[str, str]:
    return {part.entry.name: part.entry.records_sha256 for part in _parts(stage, shards)}


def _parts(stage: Stage, shards: Collection[PlannedShard]) -> Iterator[ShardPart]:
    for shard in shards:
        with closing(ArrowWithTrailer(stage.part_file(shard))) as file:
            yield ShardPart.from_json(file.trailer)
