"""Merges sorted runs of samples, block by block, within a bound of memory.

The merge loads rows without their records first. Let the bound be the smallest of the last keys
that the runs have loaded: rows that are still in the files cannot sort before it, so all loaded
rows below the bound can be put in order. Then the merge reads the records of these rows, for as
many rows at once as the memory has room for. Every batch of every run is read once. If there are
more runs than the memory has room for, groups of runs are first merged into files.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.sorting._sample_order import (
    RecordColumn,
    end_within,
    hashes_of,
    sample_order,
)
from trainfeed.pipeline.sorting._sorted_run import (
    INDEX_COLUMNS,
    RunIndex,
    RunRecords,
    SpillRun,
    run_in,
    scratch_file,
)
from trainfeed.pipeline.sorting._spill_writer import RECORD, SPILL_SCHEMA, TrailerWriter
from trainfeed.samples import Schema
from trainfeed.storage import Location

__all__ = ["Merge", "held_batch_bytes"]

# Copies of a block's records: as read, joined, in order, and one for the consumer that writes them.
_COPIES: Final = 4
# More memory does not make a merge faster. Measured with 34 runs: with 24 MiB it takes 1.5 times as
# long, with 256 MiB as long as with this value.
_MAX_BLOCK_BYTES: Final = 96 << 20
# Memory of a row without its record while rows are put in order.
_ROW_BYTES: Final = 128
_MAX_ROWS_BYTES: Final = 32 << 20
# Most runs, and so open files, of one merge.
_MAX_RUNS: Final = 512
# Bounds for the size of a batch when several files have one batch each in memory.
_LEAST_BATCH_BYTES: Final = 4 << 10
_MOST_BATCH_BYTES: Final = 1 << 20
_LEAST_SHARES: Final = 64
# Memory of all batches of a merge: three of eight parts.
_BATCH_PARTS: Final = 3
_PARTS: Final = 8


def held_batch_bytes(limit_bytes: int, num_files: int) -> int:
    """Return the size of batches that allows a merge of ``num_files`` files at once.

    Args:
        limit_bytes: Memory of the merge, the ``limit_bytes`` of ``Merge``.
        num_files: Number of files.
    """
    # Two batches of every file count: see ``SpillRun.held_bytes``.
    share = limit_bytes * _BATCH_PARTS // _PARTS // (2 * num_files)
    most = min(_MOST_BATCH_BYTES, limit_bytes // _LEAST_SHARES)
    return max(_LEAST_BATCH_BYTES, min(most, share))


class Merge:
    """Merges runs of one plan.

    Args:
        plan: The plan, for sources and schema.
        limit_bytes: Memory of the merge: three eighths for batches of runs, an eighth for rows,
            half for records. A single large record may exceed it.
        scratch: Prefix of the temporary files for merges of too many runs.
    """

    def __init__(self, plan: Plan, limit_bytes: int, scratch: Location) -> None:
        self._limit_bytes = limit_bytes
        self._scratch = scratch
        self._block_bytes = min(limit_bytes // 2, _MAX_BLOCK_BYTES) // _COPIES
        self._block_rows = min(limit_bytes // 8, _MAX_ROWS_BYTES) // _ROW_BYTES + 1
        self._hashes = hashes_of(plan.sources)
        self._column = RecordColumn.of(Schema.from_json(plan.fields))

    def blocks(self, runs: Sequence[SpillRun]) -> Generator[pa.Table, None, None]:
        """Yield the rows of all runs in the order of samples, as tables of ``SPILL_SCHEMA``."""
        runs = [run for run in runs if run.num_rows]
        # Each round merges groups of runs into files. The files of the round before are deleted
        # (``before.close()``) once the new ones are complete.
        with ExitStack() as before:
            while len(runs) > (most := self._fan_in(runs)):
                # Groups of about equal size, as few as possible: both divisions round up.
                size = -(-len(runs) // -(-len(runs) // most))
                groups = [runs[start : start + size] for start in range(0, len(runs), size)]
                with ExitStack() as files:
                    runs = [files.enter_context(self._joined(group)) for group in groups]
                    before.close()
                    before.push(files.pop_all())
            yield from self._merged(runs)

    def _fan_in(self, runs: Sequence[SpillRun]) -> int:
        """Return how many runs fit into the memory for batches."""
        held = max((run.held_bytes for run in runs), default=0)
        room = self._limit_bytes * _BATCH_PARTS // _PARTS
        return max(2, min(_MAX_RUNS, room // max(1, held)))

    @contextmanager
    def _joined(self, runs: Sequence[SpillRun]) -> Iterator[SpillRun]:
        """Merge runs into one temporary file, which is deleted at the end of the context."""
        location = scratch_file(self._scratch)
        location.write_atomic(lambda file: self._write(runs, file))
        # The merged files are not read again, and an open one would use up a descriptor.
        for run in runs:
            run.file.close()
        with run_in(location) as joined:
            yield joined

    def _write(self, runs: Sequence[SpillRun], file: BinaryIO) -> None:
        size = held_batch_bytes(self._limit_bytes, 1)
        writer = TrailerWriter(file, SPILL_SCHEMA, batch_bytes=size)
        for block in self._merged(runs):
            writer.write(block)
        writer.close({})

    def _merged(self, runs: Sequence[SpillRun]) -> Iterator[pa.Table]:
        records = [RunRecords(run) for run in runs]
        for rows in self._rows_in_order(runs):
            # Rows in blocks whose records together fit the memory; sizes are int32, sums are not.
            ends = np.cumsum(rows["size"], dtype=np.int64)
            start = 0
            while start < len(rows):
                end = end_within(ends, start, self._block_bytes)
                yield self._block(rows[start:end], records)
                start = end

    def _rows_in_order(self, runs: Sequence[SpillRun]) -> Iterator[NDArray[np.void]]:
        total = sum(run.num_rows for run in runs)
        # Each run loads rows in proportion to its length. Keys are hashes and so spread evenly, so
        # all runs have loaded up to about the same key.
        aheads = [-(-run.num_rows * self._block_rows // total) for run in runs]
        cursors = [RunIndex(r, n, a) for n, (r, a) in enumerate(zip(runs, aheads, strict=True))]
        while cursors:
            bound = min((cursor.last_key for cursor in cursors if cursor.has_more), default=None)
            rows = np.concatenate([cursor.take(bound) for cursor in cursors])
            if len(rows):
                positions = (rows[name] for name in ("source", "offset", "ordinal"))
                yield rows[sample_order(rows["key"], self._hashes, *positions)]
            for cursor in cursors:
                # Rows of one key must be put in order together. The run whose last key is the
                # bound may have more of them, so it loads more even if it has enough rows.
                if cursor.has_more and cursor.last_key == bound:
                    cursor.load()
                else:
                    cursor.fill()
            cursors = [cursor for cursor in cursors if not cursor.is_done]

    def _block(self, rows: NDArray[np.void], records: Sequence[RunRecords]) -> pa.Table:
        # ``parts`` has the records run by run, each in the order of its file; ``place`` maps every
        # row of the block to its index among the joined parts: the inverse of a stable sort by run.
        numbers, counts = np.unique(rows["run"], return_counts=True)
        parts = [
            part
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
            for part in records[number].take(count)
        ]
        place = np.empty(len(rows), np.intp)
        place[np.argsort(rows["run"].astype(np.uint16), kind="stable")] = np.arange(len(rows))
        columns = {name: pa.array(np.ascontiguousarray(rows[name])) for name in INDEX_COLUMNS}
        columns[RECORD] = self._column.gather(parts, place)
        return pa.table([columns[name] for name in SPILL_SCHEMA.names], schema=SPILL_SCHEMA)
