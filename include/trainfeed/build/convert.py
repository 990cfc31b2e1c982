"""Stage ``convert``: spilled samples become shards in the plan's staging folder.

A shard is an equal range of order keys, so its samples are one run of rows in every spill file;
these are merged, block by block where they do not fit the memory, and framed. Two tries write the
same bytes, each under a name of its own, and rename them onto the final name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any, BinaryIO, Final

import pyarrow as pa

from trainfeed import faults
from trainfeed.build._merge import MERGED_SCHEMA, Merge, Run
from trainfeed.build._plan_file import PlannedShard
from trainfeed.build._ref import PlanRef
from trainfeed.build._shard import ShardWriter
from trainfeed.build._spill import ArrowWithTrailer, TrailerWriter
from trainfeed.build._stage import Stage, run_stage, unit_of
from trainfeed.build._staging import StagedFile
from trainfeed.config import Environment
from trainfeed.paths import make_folders
from trainfeed.spec import DatasetSpec

__all__ = ["convert"]

_PART_COLUMNS: Final = ("source", "offset", "ordinal")


def convert(spec: DatasetSpec, env: Environment, ref: PlanRef, unit: int) -> dict[str, Any]:
    """Write the shards of one task.

    Args:
        spec: The data set.
        env: Where things are.
        ref: The plan.
        unit: Index into the plan's ``convert``.

    Returns:
        ``verdict``, ``shards``, ``samples``, ``bytes``.

    Raises:
        QuotaExceededError: The publication root is full.
    """
    return run_stage("convert", (spec, env, ref), lambda stage: _convert(stage, unit))


def _convert(stage: Stage, unit: int) -> dict[str, Any]:
    make_folders(stage.folder.staged(stage.plan.plan_id))
    entries = []
    merge = Merge(stage.plan, stage.spec.resources.memory_bytes)
    with ExitStack() as stack:
        spills = [
            stack.enter_context(closing(ArrowWithTrailer(stage.spill_file(group))))
            for group in range(len(stage.plan.preprocess))
        ]
        for shard in unit_of(stage.plan.convert, unit):
            entries.append(_write_shard(stage, shard, merge, _runs(spills, shard)))
            faults.point("convert.after_shard")
    return {
        "verdict": "built",
        "unit": unit,
        "shards": len(entries),
        "samples": sum(entry["samples"] for entry in entries),
        "bytes": sum(entry["bytes"] for entry in entries),
    }


def _runs(spills: Sequence[ArrowWithTrailer], shard: PlannedShard) -> list[Run]:
    """Return where the samples of a shard are in every spill file."""
    edges = [spill.trailer["rows"][shard.split] for spill in spills]
    return [
        Run(spill, rows[shard.index], rows[shard.index + 1])
        for spill, rows in zip(spills, edges, strict=True)
    ]


def _write_shard(
    stage: Stage, shard: PlannedShard, merge: Merge, runs: Sequence[Run]
) -> dict[str, Any]:
    name = stage.plan.shard_name(shard)
    positions = [MERGED_SCHEMA.empty_table().select(list(_PART_COLUMNS))]
    with StagedFile(stage.folder, stage.plan.plan_id, name, mode=0o444) as file:
        writer = ShardWriter(stage, file)
        for block in merge.blocks(runs):
            writer.write(block["record"])
            positions.append(block.select(list(_PART_COLUMNS)))
            faults.point("convert.after_block")
        writer.close()
        faults.point("convert.before_sync")
    entry = {
        "name": name,
        "bytes": file.num_bytes,
        "samples": writer.num_samples,
        "sha256": file.sha256,
        "records_sha256": writer.records_sha256,
    }
    _write_part(stage, shard, positions, {"shard": entry, **writer.account()})
    return entry


def _write_part(
    stage: Stage, shard: PlannedShard, positions: list[pa.Table], trailer: dict[str, Any]
) -> None:
    def write(file: BinaryIO) -> None:
        part = TrailerWriter(file, positions[0].schema)
        for table in positions:
            part.write(table)
        part.close(trailer)

    stage.part_file(shard).write_atomic(write)
