"""The work of one group of the plan: its account and quarantine as files, its samples as rows.

The function runs in the limited worker process of the local engine, which writes sorted runs into a
folder of the executor. The rows of these runs go to Spark, which sorts them by shard and key.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed import faults
from trainfeed.dataset.identity import source_hash
from trainfeed.pipeline.functions import RecordAccount, run_function, settle_quarantine
from trainfeed.pipeline.labels import settle_labels, settle_used
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.sorting import RECORD, SPILL_SCHEMA, ArrowWithTrailer, TrailerWriter
from trainfeed.pipeline.stage import Stage, unit_of
from trainfeed.storage import Location

__all__ = ["ROW_COLUMNS", "SIGN", "ranks_of_sources", "rows_of_group"]

# Spark's numbers have a sign; with their first bit turned, they sort as those without.
SIGN: Final = np.uint64(1 << 63)
# ``rank`` is the place of the source in the order of source hashes, by which equal keys are sorted.
_ROWS: Final = pa.schema(
    {
        "shard": pa.int32(),
        "key": pa.int64(),
        "rank": pa.int32(),
        "offset": pa.int64(),
        "ordinal": pa.int32(),
        RECORD: pa.binary(),
    }
)
ROW_COLUMNS: Final = "shard int, key long, rank int, offset long, ordinal int, record binary"


def rows_of_group(
    stage: Stage, group: int, scratch: Location, kept: Collection[int] = ()
) -> Iterator[pa.RecordBatch]:
    """Do the work of a group.

    Args:
        stage: The stage.
        group: Index into the plan's ``preprocess``.
        scratch: Folder of this task.
        kept: Numbers of shards that are there already; their samples are left out.

    Yields:
        The samples, with the number of the shard that gets them.
    """
    ranges = unit_of(stage.plan.preprocess, group)
    settle_labels(stage)
    faults.point("spark.before_function")
    parts = run_function(stage, ranges, scratch / uuid.uuid4().hex)
    account = RecordAccount.total([part.account for part in parts])
    faults.point("spark.after_function")
    settle_quarantine(stage, group, parts, scratch)
    settle_used(stage, group, [part.used for part in parts if part.used is not None])
    _settle_account(stage, group, account)
    faults.point("spark.before_rows")
    ranks = ranks_of_sources(stage.plan)
    for name in (name for part in parts for name in part.runs):
        with closing(ArrowWithTrailer(scratch / name)) as run:
            yield from _rows(stage.plan, run, ranks, kept)
        (scratch / name).delete()


def ranks_of_sources(plan: Plan) -> NDArray[np.int32]:
    """Return the place of every source of a plan in the order of their hashes, int32 of (n,)."""
    hashes = np.array([source_hash(source) for source in plan.sources], dtype=np.uint64)
    ranks = np.empty(len(hashes), np.int32)
    ranks[np.argsort(hashes, kind="stable")] = np.arange(len(hashes), dtype=np.int32)
    return ranks


def _settle_account(stage: Stage, group: int, account: RecordAccount) -> None:
    """Write the spill file of a task without samples: the account, which ``check`` reads."""
    stage.spill_file(group).write_atomic(
        lambda file: TrailerWriter(file, SPILL_SCHEMA).close(account.to_json())
    )


def _rows(
    plan: Plan, run: ArrowWithTrailer, ranks: NDArray[np.int32], kept: Collection[int]
) -> Iterator[pa.RecordBatch]:
    starts, shards = _shard_starts(plan, run)
    is_wanted = ~np.isin(shards, list(kept))
    first = 0
    for table in run.iter_tables():
        for batch in table.to_batches():
            places = np.searchsorted(starts, np.arange(first, first + len(batch)), "right") - 1
            first += len(batch)
            if kept:
                batch = batch.filter(pa.array(is_wanted[places]))  # noqa: PLW2901 - the same rows
                places = places[is_wanted[places]]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(shards[places]),
                    pa.array((batch.column("key").to_numpy() ^ SIGN).view(np.int64)),
                    pa.array(ranks[batch.column("source").to_numpy()]),
                    batch.column("offset"),
                    batch.column("ordinal"),
                    batch.column(RECORD),
                ],
                schema=_ROWS,
            )


def _shard_starts(plan: Plan, run: ArrowWithTrailer) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the first rows of all shards in a run, ascending, and the numbers of these shards."""
    numbers = {(shard.split, shard.index): n for n, shard in enumerate(plan.all_shards())}
    rows: dict[str, Sequence[int]] = run.trailer["rows"]
    starts = [
        (start, numbers[split, index])
        for split in plan.splits
        for index, start in enumerate(rows[split][:-1])
    ]
    # A row is of the last shard that begins at or before it: those without rows begin there, too.
    table = np.array(starts, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1].astype(np.int32)
