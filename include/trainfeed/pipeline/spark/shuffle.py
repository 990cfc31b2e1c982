"""Samples on their way through Spark's shuffle, and whole shards that need not go through it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa
import xxhash

from trainfeed.errors import EngineError, FormatError, NotFoundError
from trainfeed.files.stores import posix
from trainfeed.pipeline.convert import PART_SCHEMA
from trainfeed.pipeline.plans import PlannedShard
from trainfeed.pipeline.sorting.spill_files import SPILL_SCHEMA, ArrowWithTrailer
from trainfeed.pipeline.spark.shipment import digest_of_file
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version import ShardPart

# --- Samples on their way through Spark's shuffle: pieces of sorted runs, each whole in one row

_PIECES: Final = pa.schema({"shard": pa.int32(), "digest": pa.binary(), "samples": pa.binary()})
PIECE_COLUMNS: Final = "shard int, digest binary, samples binary"
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def encoded_pieces(pieces: Sequence[tuple[int, pa.RecordBatch]]) -> pa.RecordBatch:
    """Return rows for the shuffle.

    Args:
        pieces: The number of the shard, and its samples, of ``SPILL_SCHEMA``.
    """
    streams = [_encoded(samples) for _, samples in pieces]
    digests = [xxhash.xxh3_128_digest(stream) for stream in streams]
    columns = [[number for number, _ in pieces], digests, streams]
    return pa.RecordBatch.from_arrays(
        [pa.array(*each) for each in zip(columns, _PIECES.types, strict=True)], schema=_PIECES
    )


def decoded_pieces(number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the samples of a shard, piece by piece, as tables of ``SPILL_SCHEMA``.

    Args:
        number: Number of the shard.
        batches: The rows that Spark gives to its partition, in any order.

    Raises:
        EngineError: A row is of another shard, or is not the one that was sent.
    """
    for batch in batches:
        for row in batch.to_pylist():
            if row["shard"] != number:
                raise _mixed_up(f"the rows of shard {number}", f"one of shard {row['shard']}")
            if xxhash.xxh3_128_digest(row["samples"]) != row["digest"]:
                raise _mixed_up(f"the samples of shard {number} as they were sent", "others")
            yield pa.ipc.open_stream(row["samples"]).read_all()


def _encoded(samples: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SPILL_SCHEMA, options=_OPTIONS) as stream:
        stream.write_batch(samples)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _mixed_up(expected: str, got: str) -> EngineError:
    return EngineError(
        f"expected {expected} from Spark's shuffle, got {got}; nothing was published; run the"
        " build again with engine local"
    )


# --- Shards that an earlier attempt at the same plan has written, which need not be written again


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
