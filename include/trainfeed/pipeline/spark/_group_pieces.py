"""The work of one group of the plan: its account and quarantine as files, its samples as pieces.

The function runs in the limited worker process of the local engine, which writes sorted runs into a
folder of the executor. Pieces of these runs go through Spark's shuffle, each to its shard.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed import faults
from trainfeed.pipeline.functions import RecordAccount, run_function, settle_quarantine
from trainfeed.pipeline.labels import settle_labels, settle_used
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.sorting import SPILL_SCHEMA, ArrowWithTrailer, TrailerWriter
from trainfeed.pipeline.spark._sample_pieces import encoded_pieces
from trainfeed.pipeline.stage import Stage, unit_of
from trainfeed.storage import Location

__all__ = ["pieces_of_group"]


def pieces_of_group(
    stage: Stage, group: int, scratch: Location, kept: Collection[int] = ()
) -> Iterator[pa.RecordBatch]:
    """Do the work of a group.

    Args:
        stage: The stage.
        group: Index into the plan's ``preprocess``.
        scratch: Folder of this task.
        kept: Numbers of shards that are there already; their samples are left out.

    Yields:
        The samples, as rows for the shuffle with the number of the shard that gets them.
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
    for name in (name for part in parts for name in part.runs):
        with closing(ArrowWithTrailer(scratch / name)) as run:
            yield from _pieces(stage.plan, run, kept)
        (scratch / name).delete()


def _settle_account(stage: Stage, group: int, account: RecordAccount) -> None:
    """Write the spill file of a task without samples: the account, which ``check`` reads."""
    stage.spill_file(group).write_atomic(
        lambda file: TrailerWriter(file, SPILL_SCHEMA).close(account.to_json())
    )


def _pieces(plan: Plan, run: ArrowWithTrailer, kept: Collection[int]) -> Iterator[pa.RecordBatch]:
    """Yield a batch of pieces for each batch of a run: a piece has the rows of one shard."""
    starts, shards = _shard_starts(plan, run)
    first = 0
    for table in run.iter_tables():
        for batch in table.to_batches():
            end = first + len(batch)
            inner = starts[(starts > first) & (starts < end)]
            edges = np.unique(np.concatenate([[first], inner, [end]]))
            numbers = shards[np.searchsorted(starts, edges[:-1], "right") - 1]
            pieces = [
                (int(number), batch.slice(start - first, length))
                for number, start, length in zip(numbers, edges, np.diff(edges), strict=False)
                if number not in kept
            ]
            yield encoded_pieces(pieces)
            first = end


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
