"""The rows of one shard, as Spark returns them, in the form in which shards are written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainfeed.errors import EngineError
from trainfeed.pipeline.sorting import RECORD, SPILL_SCHEMA
from trainfeed.pipeline.spark._group_rows import SIGN, ranks_of_sources
from trainfeed.pipeline.stage import Stage

__all__ = ["blocks_of"]


def blocks_of(stage: Stage, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the samples of a shard as tables of ``SPILL_SCHEMA``.

    Args:
        stage: The stage.
        number: Number of the shard among all of the plan.
        batches: The rows of the partition with that number, sorted.

    Raises:
        EngineError: A row is of another shard, or the rows are not sorted.
    """
    sources = np.argsort(ranks_of_sources(stage.plan)).astype(np.int32)
    last = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = batch.column("key").to_numpy().view(np.uint64) ^ SIGN
        shards = batch.column("shard").to_numpy()
        if (shards != number).any() or keys[0] < last or (keys[1:] < keys[:-1]).any():
            raise EngineError(
                f"expected the sorted rows of shard {number} from Spark's shuffle, got others;"
                " nothing was published; run the build again with engine local"
            )
        last = int(keys[-1])
        record = batch.column(RECORD).cast(pa.binary())
        yield pa.Table.from_arrays(
            [
                pa.array(keys),
                pa.array(sources[batch.column("rank").to_numpy()]),
                batch.column("offset"),
                batch.column("ordinal"),
                pc.binary_length(record),
                record,
            ],
            schema=SPILL_SCHEMA,
        )
