"""Shards that an earlier attempt at the same plan has written, which need not be written again.

A killed application loses its shuffle, but not the shards that were whole. The rows of these are
left out of the next shuffle. A shard counts only if its part file is of the very same plan file,
and if every byte of both files has its digest.
"""

from __future__ import annotations

from contextlib import closing

from trainfeed.errors import FormatError, NotFoundError
from trainfeed.pipeline.convert import PART_SCHEMA
from trainfeed.pipeline.plans import PlannedShard
from trainfeed.pipeline.sorting import ArrowWithTrailer
from trainfeed.pipeline.spark._shipment import digest_of_file
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version import ShardPart
from trainfeed.storage import posix

__all__ = ["is_whole", "written_before"]


def written_before(stage: Stage) -> list[int]:
    """Return the numbers of the shards that have a part file; none of these is read."""
    names = {file.name for file in stage.spill.list()}
    shards = enumerate(stage.plan.all_shards())
    return [number for number, shard in shards if stage.part_file(shard).name in names]


def is_whole(stage: Stage, shard: PlannedShard) -> bool:
    """Return whether a shard and its part file are those of this plan, byte by byte."""
    try:
        part = _part(stage, shard)
        path = stage.staged / stage.plan.shard_name(shard)
        with posix.map_errors(path):
            return part is not None and digest_of_file(path) == part.entry.sha256
    except (FormatError, NotFoundError):
        # Damaged or gone: the shard is written again.
        return False


def _part(stage: Stage, shard: PlannedShard) -> ShardPart | None:
    with closing(ArrowWithTrailer(stage.part_file(shard))) as file:
        if file.trailer.get("plan") != stage.plan_sha256:
            return None
        # Reading compares every batch with its digest; the names of the columns have none.
        if not all(table.schema.equals(PART_SCHEMA) for table in file.iter_tables()):
            return None
        return ShardPart.from_json(file.trailer)
