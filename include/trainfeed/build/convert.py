"""Stage ``convert``: spilled samples become shards in the plan's staging folder.

A shard is an equal range of order keys, so its samples are one run of rows in every spill file;
they are gathered, put into the total order and framed. Two tries write the same bytes, each under a
name of its own, and rename them onto the final name.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack, closing
from typing import Any, BinaryIO, Final, cast

import numpy as np
import pyarrow as pa

from trainfeed import faults
from trainfeed.build._plan_file import PlannedShard
from trainfeed.build._ref import PlanRef
from trainfeed.build._spill import SPILL_SCHEMA, ArrowWithTrailer, concat, write_with_trailer
from trainfeed.build._stage import Stage, run_stage, unit_of
from trainfeed.build._staging import StagedFile
from trainfeed.config import Environment
from trainfeed.dataset.identity import source_hash
from trainfeed.dataset.order import key_order
from trainfeed.errors import MemoryLimitError
from trainfeed.recordio import ChunkInfo, Codec, RecordWriter
from trainfeed.samples import Schema, Statistics, TypedCodec
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
        MemoryLimitError: A shard exceeds ``resources.memory_bytes``.
        QuotaExceededError: The publication root is full.
    """
    return run_stage("convert", (spec, env, ref), lambda stage: _convert(stage, unit))


def _convert(stage: Stage, unit: int) -> dict[str, Any]:
    stage.folder.staged(stage.plan.plan_id).mkdir(parents=True, exist_ok=True)
    entries = []
    with ExitStack() as stack:
        spills = [
            stack.enter_context(closing(ArrowWithTrailer(stage.spill_file(group))))
            for group in range(len(stage.plan.preprocess))
        ]
        for shard in unit_of(stage.plan.convert, unit):
            entries.append(_write_shard(stage, shard, _gather(stage, spills, shard)))
            faults.point("convert.after_shard")
    return {
        "verdict": "built",
        "unit": unit,
        "shards": len(entries),
        "samples": sum(entry["samples"] for entry in entries),
        "bytes": sum(entry["bytes"] for entry in entries),
    }


def _gather(stage: Stage, spills: list[ArrowWithTrailer], shard: PlannedShard) -> pa.Table:
    """Return the samples of a shard in their total order."""
    tables, num_bytes = [], 0
    for spill in spills:
        start, end = spill.trailer["rows"][shard.split][shard.index : shard.index + 2]
        tables.append(spill.rows(start, end))
        num_bytes += tables[-1].nbytes
        if num_bytes > stage.spec.resources.memory_bytes:
            raise MemoryLimitError(
                f"shard {stage.plan.shard_name(shard)} exceeds resources.memory_bytes ="
                f" {stage.spec.resources.memory_bytes} bytes; raise it, or lower"
                " output.samples_per_shard in dataset.yaml"
            )
    table = concat(tables, SPILL_SCHEMA)
    hashes = np.array([source_hash(source) for source in stage.plan.sources], dtype=np.uint64)
    sources = table["source"].to_numpy()
    order = key_order(
        table["key"].to_numpy(),
        hashes[sources],
        table["offset"].to_numpy(),
        table["ordinal"].to_numpy(),
    )
    return table.take(pa.array(order))


def _write_shard(stage: Stage, shard: PlannedShard, table: pa.Table) -> dict[str, Any]:
    name = stage.plan.shard_name(shard)
    records = table["record"].to_pylist()
    output = stage.spec.output
    with StagedFile(stage.folder, stage.plan.plan_id, name, mode=0o444) as file:
        writer = RecordWriter(
            cast("BinaryIO", file),
            codec=Codec[output.codec.upper()],
            level=output.level,
            max_chunk_bytes=output.chunk_bytes,
        )
        for record in records:
            writer.write(record)
        writer.close()
        faults.point("convert.before_sync")
    entry = {
        "name": name,
        "bytes": file.num_bytes,
        "samples": len(records),
        "sha256": file.sha256,
        "records_sha256": _records_sha256(records),
    }
    _write_part(stage, shard, table, _trailer(stage, entry, writer.chunks, records))
    return entry


def _records_sha256(records: list[bytes]) -> str:
    digest = hashlib.sha256()
    for record in records:
        digest.update(len(record).to_bytes(4, "little"))
        digest.update(record)
    return digest.hexdigest()


def _trailer(
    stage: Stage, entry: dict[str, Any], chunks: list[ChunkInfo], records: list[bytes]
) -> dict[str, Any]:
    return {
        "shard": entry,
        "chunks": [_chunk_json(chunk) for chunk in chunks],
        "statistics": _statistics(stage, records),
    }


def _chunk_json(chunk: ChunkInfo) -> dict[str, int]:
    return {
        "offset_bytes": chunk.offset_bytes,
        "stored_bytes": chunk.stored_bytes,
        "raw_bytes": chunk.raw_bytes,
        "num_records": chunk.num_records,
        "crc32": chunk.crc32,
        "codec": int(chunk.codec),
    }


def _statistics(stage: Stage, records: list[bytes]) -> dict[str, Any]:
    schema = Schema.from_json(stage.plan.fields)
    codec = TypedCodec(schema)
    statistics = Statistics(schema)
    if schema.is_fixed:
        framing = b"".join(len(record).to_bytes(4, "little") + record for record in records)
        statistics.update_columns(codec.decode_records(memoryview(framing), len(records)))
    else:
        for record in records:
            statistics.update(codec.decode(record))
    return statistics.to_json()


def _write_part(
    stage: Stage, shard: PlannedShard, table: pa.Table, trailer: dict[str, Any]
) -> None:
    positions = table.select(list(_PART_COLUMNS))
    stage.part_file(shard).write_atomic(lambda file: write_with_trailer(file, positions, trailer))
