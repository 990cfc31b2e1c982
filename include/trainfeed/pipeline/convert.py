"""Stage ``convert``: spilled samples become shards in the plan's staging folder.

Shards are equal ranges of order keys, and spill files are sorted by order key. Neighbouring shards
of a split are therefore one range of rows in every spill file. The stage merges these ranges, block
by block if they do not fit into memory, and cuts the result into shards, so a task reads its part
of every spill file once. Two attempts write the same bytes, each under a temporary name, and rename
them to the final name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import pairwise
from typing import BinaryIO, Final, NamedTuple

import pyarrow as pa

from trainfeed.core import faults
from trainfeed.files import make_folders
from trainfeed.pipeline.functions.account import room_for_samples
from trainfeed.pipeline.plans import PlannedShard
from trainfeed.pipeline.reports import Build, ConvertReport, PublishedBefore
from trainfeed.pipeline.run_stage import run_stage, unit_of
from trainfeed.pipeline.sorting.merge import Merge, SpillRun
from trainfeed.pipeline.sorting.spill_files import (
    RECORD,
    SPILL_SCHEMA,
    ArrowWithTrailer,
    TrailerWriter,
    first_shards,
)
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version import ShardPart, ShardWriter
from trainfeed.pipeline.waivers import kept_shards
from trainfeed.versions.manifest import ShardEntry
from trainfeed.versions.publication import StagedFile

PART_SCHEMA: Final = pa.schema([SPILL_SCHEMA.field(n) for n in ("source", "offset", "ordinal")])


def convert(build: Build, unit: int) -> ConvertReport | PublishedBefore:
    """Write the shards of one task.

    Args:
        build: The build.
        unit: Index into the plan's ``convert``.

    Returns:
        The counts of samples and bytes written; the verdict is built, published, or
        adopted: the shards of an earlier attempt, which gates refused, are used.

    Raises:
        QuotaExceededError: The publication root is full.
    """
    return run_stage("convert", build, lambda stage: _convert(stage, unit))


def _convert(stage: Stage, unit: int) -> ConvertReport:
    make_folders(stage.folder.staged(stage.plan.plan_id))
    shards = unit_of(stage.plan.convert, unit)
    if (known := kept_shards(stage, shards)) is not None:
        return _report(unit, known, verdict="adopted")
    scratch = stage.spill / f".convert-{unit:05d}"
    merge = Merge(stage.plan, room_for_samples(stage.spec), scratch)
    entries = []
    with ExitStack() as stack:
        spills = [
            stack.enter_context(closing(ArrowWithTrailer(stage.spill_file(group))))
            for group in range(len(stage.plan.preprocess))
        ]
        for first, runs, counts in _segments(spills, shards):
            samples = _Samples(stack.enter_context(closing(merge.blocks(runs))))
            for index, count in enumerate(counts, first.index):
                shard = first.model_copy(update={"index": index})
                entries.append(write_shard(stage, shard, samples.take(count)))
                faults.point("convert.after_shard")
    return _report(unit, entries)


def _report(unit: int, entries: Sequence[ShardEntry], *, verdict: str = "built") -> ConvertReport:
    return ConvertReport(
        unit=unit,
        verdict=verdict,
        shards=len(entries),
        samples=sum(entry.samples for entry in entries),
        bytes=sum(entry.bytes for entry in entries),
    )


class _Segment(NamedTuple):
    """Neighbouring shards of one split.

    Attributes:
        first: The first shard.
        runs: One range of rows per spill file: the samples of all these shards.
        counts: Number of samples of each shard.
    """

    first: PlannedShard
    runs: list[SpillRun]
    counts: list[int]


def _segments(spills: Sequence[ArrowWithTrailer], unit: Sequence[PlannedShard]) -> list[_Segment]:
    segments = [_Segment(first, [], [0] * count) for first, count in first_shards(unit)]
    for spill in spills:
        spill.require_samples()
        # ``pop``: with very many shards and spill files, the row tables of all spill files
        # together would not fit into memory; only the edges of this task are kept.
        rows = spill.trailer.pop("rows")
        for first, runs, counts in segments:
            # Shard ``i`` of a split has the rows ``[rows[i], rows[i + 1])`` of the spill file.
            edges = rows[first.split][first.index : first.index + len(counts) + 1]
            runs.append(SpillRun(spill, edges[0], edges[-1]))
            counts[:] = [n + b - a for n, (a, b) in zip(counts, pairwise(edges), strict=True)]
    return segments


class _Samples:
    """Cuts a stream of tables of samples into shards.

    Args:
        blocks: Tables of samples, in the order of the shards.
    """

    def __init__(self, blocks: Iterator[pa.Table]) -> None:
        self._blocks = blocks
        self._rest = SPILL_SCHEMA.empty_table()

    def take(self, count: int) -> Iterator[pa.Table]:
        """Yield tables that together hold the next ``count`` samples."""
        while count:
            if not len(self._rest):
                self._rest = next(self._blocks)
            table = self._rest.slice(0, count)
            self._rest = self._rest.slice(len(table))
            count -= len(table)
            yield table


def write_shard(stage: Stage, shard: PlannedShard, blocks: Iterator[pa.Table]) -> ShardEntry:
    """Write a shard and, block by block, its file of positions: they need not fit into memory.

    Args:
        stage: The stage; its staging folder exists.
        shard: The shard.
        blocks: Its samples in their order: tables of ``SPILL_SCHEMA``. Their sizes do not matter.
    """
    written: list[ShardEntry] = []

    def write(file: BinaryIO) -> None:
        positions = TrailerWriter(file, PART_SCHEMA)
        part = _write_samples(stage, shard, blocks, positions)
        # By the plan, a later attempt knows whose shard it is.
        positions.close({**part.to_json(), "plan": stage.plan_sha256})
        written.append(part.entry)

    stage.part_file(shard).write_atomic(write)
    return written[-1]


def _write_samples(
    stage: Stage,
    shard: PlannedShard,
    blocks: Iterator[pa.Table],
    positions: TrailerWriter,
) -> ShardPart:
    name = stage.plan.shard_name(shard)
    with StagedFile(stage.staged, name, mode=0o444) as file:
        writer = ShardWriter(stage, file)
        for block in blocks:
            writer.write(block[RECORD])
            positions.write(block.select(PART_SCHEMA.names))
            faults.point("convert.after_block")
        writer.close()
        faults.point("convert.before_sync")
    entry = ShardEntry(
        name=name,
        bytes=file.num_bytes,
        samples=writer.num_samples,
        sha256=file.sha256,
        records_sha256=writer.records_sha256,
    )
    return writer.part(entry)
