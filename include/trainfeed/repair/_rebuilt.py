"""Makes files of a version again, by the stages of its plan, as far as these files need them.

Samples are shuffled over all shards, so one shard needs all records of the interval; only damaged
shards are written. Files about all shards (index, positions, statistics) need all of them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainfeed import faults
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.version import CHUNKS, POSITIONS, STATISTICS
from trainfeed.paths import make_folders
from trainfeed.pipeline import Build
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plans import Plan, PlannedShard
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.pipeline.sorting import ArrowWithTrailer
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version import STAGED_WRITERS, ShardPart, assemble
from trainfeed.repair._repair_place import RepairPlace
from trainfeed.repair._repair_report import Effort
from trainfeed.repair._same_recipe import spec_of_plan
from trainfeed.specification import DatasetSpec
from trainfeed.usercode import running_libraries

__all__ = ["Rebuilt", "makes", "rebuild", "rebuild_all"]

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
    return Rebuilt(stage.staged, effort, _records(stage, shards))


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
    return Rebuilt(stage.staged, effort, _records(stage, shards))


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
    return Build(spec_of_plan(spec, real, plan, place.scratch), place.env, plan.ref()), units


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


def _records(stage: Stage, shards: Collection[PlannedShard]) -> dict[str, str]:
    return {part.entry.name: part.entry.records_sha256 for part in _parts(stage, shards)}


def _parts(stage: Stage, shards: Collection[PlannedShard]) -> Iterator[ShardPart]:
    for shard in shards:
        with closing(ArrowWithTrailer(stage.part_file(shard))) as file:
            yield ShardPart.from_json(file.trailer)
