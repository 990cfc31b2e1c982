"""Writes the files of a staged version that follow from the parts of its shards, each by itself.

They are functions of the plan and of the work files, so two attempts write the same bytes: a build,
and the repair of a published version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Final

import pyarrow as pa

from trainfeed import canonical_json
from trainfeed.dataset.manifest import FileEntry
from trainfeed.dataset.publication import StagedFile
from trainfeed.dataset.version import (
    CHUNKS,
    CHUNKS_SCHEMA,
    POSITIONS,
    POSITIONS_SCHEMA,
    STATISTICS,
)
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.plans import PlannedShard
from trainfeed.pipeline.quarantine import QUARANTINE_FILE
from trainfeed.pipeline.sorting import QUARANTINE_SCHEMA, ArrowWithTrailer
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version._quarantine_rows import quarantine_batches
from trainfeed.pipeline.version._shard_writer import ShardPart
from trainfeed.samples import Schema, Statistics

__all__ = [
    "STAGED_WRITERS",
    "write_bytes",
    "write_chunks",
    "write_positions",
    "write_quarantine",
    "write_statistics",
]

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))


def write_chunks(stage: Stage) -> FileEntry:
    """Write the index of chunks, from the parts of all shards."""
    return _write_arrow(stage, CHUNKS, CHUNKS_SCHEMA, _chunks(stage))


def write_positions(stage: Stage) -> FileEntry:
    """Write the positions of all samples, from the parts of all shards."""
    return _write_arrow(stage, POSITIONS, POSITIONS_SCHEMA, _positions(stage))


def write_quarantine(stage: Stage) -> FileEntry:
    """Write the quarantined records, from the work files of ``preprocess``."""
    return _write_arrow(stage, QUARANTINE_FILE, QUARANTINE_SCHEMA, quarantine_batches(stage))


def write_statistics(stage: Stage, statistics: Mapping[str, object]) -> FileEntry:
    """Write the statistics: split → field → name and value."""
    return write_bytes(stage, STATISTICS, canonical_json.dumps(dict(statistics)))


def write_bytes(stage: Stage, name: str, data: bytes) -> FileEntry:
    """Write a file with this content, readable for every account."""
    with StagedFile(stage.staged, name, mode=0o444) as file:
        file.write(data)
    return FileEntry(name=name, bytes=file.num_bytes, sha256=file.sha256)


def _write_arrow(
    stage: Stage, name: str, schema: pa.Schema, tables: Iterator[pa.Table]
) -> FileEntry:
    mode = 0o600 if name == QUARANTINE_FILE else 0o444
    with (
        StagedFile(stage.staged, name, mode=mode) as file,
        pa.ipc.new_file(pa.PythonFile(file, mode="w"), schema, options=_OPTIONS) as writer,
    ):
        for table in tables:
            writer.write_table(table)
    return FileEntry(name=name, bytes=file.num_bytes, sha256=file.sha256)


def _positions_of_shards(stage: Stage) -> Iterator[tuple[PlannedShard, pa.Table]]:
    for shard in stage.plan.all_shards():
        with closing(ArrowWithTrailer(stage.part_file(shard))) as file:
            yield shard, file.read_all()


def _parts(stage: Stage) -> Iterator[tuple[PlannedShard, ShardPart]]:
    """Yield the account of every shard, without reading positions; the trailer has a digest."""
    for shard in stage.plan.all_shards():
        with closing(ArrowWithTrailer(stage.part_file(shard))) as file:
            yield shard, ShardPart.from_json(file.trailer)


def _chunks(stage: Stage) -> Iterator[pa.Table]:
    ordinals = dict.fromkeys(stage.plan.splits, 0)
    for shard, part in _parts(stage):
        rows = []
        for chunk in part.chunks:
            first = ordinals[shard.split]
            place = {"split": shard.split, "shard": shard.index, "first_ordinal": first}
            rows.append({**chunk, **place})
            ordinals[shard.split] += chunk["num_records"]
        yield pa.Table.from_pylist(rows, schema=CHUNKS_SCHEMA)


def _positions(stage: Stage) -> Iterator[pa.Table]:
    names = pa.array(stage.plan.splits)
    for shard, positions in _positions_of_shards(stage):
        # One dictionary for the whole file: an IPC file cannot change it between batches.
        indices = pa.array([stage.plan.splits.index(shard.split)] * len(positions), pa.int32())
        column = pa.DictionaryArray.from_arrays(indices, names)
        # Copied: behind the rows of a column that was a slice, Arrow writes bytes of other rows.
        rows = (positions[name].to_numpy() for name in ("source", "offset", "ordinal"))
        columns = [column, *(pa.array(each.copy()) for each in rows)]
        yield pa.Table.from_arrays(columns, schema=POSITIONS_SCHEMA)


def _merged_statistics(stage: Stage) -> JsonObject:
    schema = Schema.from_json(stage.plan.fields)
    merged = {split: Statistics(schema) for split in stage.plan.splits}
    for shard, part in _parts(stage):
        merged[shard.split].merge(Statistics.from_json(schema, part.statistics))
    return {split: each.to_json() for split, each in merged.items()}


def _write_merged(stage: Stage) -> FileEntry:
    return write_statistics(stage, _merged_statistics(stage))


# The name of each file → what writes it from work files alone, without a verdict of ``check``.
STAGED_WRITERS: Final[Mapping[str, Callable[[Stage], FileEntry]]] = {
    CHUNKS: write_chunks,
    POSITIONS: write_positions,
    QUARANTINE_FILE: write_quarantine,
    STATISTICS: _write_merged,
}
