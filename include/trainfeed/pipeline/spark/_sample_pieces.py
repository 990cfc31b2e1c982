"""Samples on their way through Spark's shuffle: pieces of sorted runs, each whole in one row.

A row has the number of the shard, the samples as a compressed stream of Arrow, and their digest.
Spark moves these few rows and does not look into them: a row per sample took it as long as all the
rest of a build.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import xxhash

from trainfeed.errors import EngineError
from trainfeed.pipeline.sorting import SPILL_SCHEMA

__all__ = ["PIECE_COLUMNS", "decoded_pieces", "encoded_pieces"]

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
