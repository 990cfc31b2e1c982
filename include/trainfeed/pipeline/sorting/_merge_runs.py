"""Merges sorted runs of samples, block by block, within a bound of memory.

Rows without their records are put in order first: as many as sort before the smallest key that a
run has loaded last, because rows that are still in the files cannot belong before it. Then their
records are read, for as many rows at once as the memory takes, however large they are. Every batch
of every run is read once. Where there are more runs than the memory has room for, groups of them
are merged into one, in files, before.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.dataset.identity import source_hash
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.sorting._sample_order import RecordColumn, end_within, sample_order
from trainfeed.pipeline.sorting._sorted_run import INDEX_COLUMNS, RunIndex, RunRecords, SpillRun
from trainfeed.pipeline.sorting._spill_file import ArrowWithTrailer
from trainfeed.pipeline.sorting._spill_writer import RECORD, SPILL_SCHEMA, TrailerWriter
from trainfeed.samples import Schema
from trainfeed.storage import Location

__all__ = ["Merge", "held_batch_bytes"]

# Records of a block are read, put together, and put in order; the fourth is for what writes them.
_COPIES: Final = 4
# More memory makes no merge faster. Measured with 34 runs: 24 MiB take 1.5 times as long, 256 MiB
# as long as this.
_MAX_BLOCK_BYTES: Final = 96 << 20
# What a row takes without its record while it is put in order.
_ROW_BYTES: Final = 128
_MAX_ROWS_BYTES: Final = 32 << 20
# Files that are open at once.
_MAX_RUNS: Final = 512
# Bounds of a batch where several files have one in memory each.
_LEAST_BATCH_BYTES: Final = 4 << 10
_MOST_BATCH_BYTES: Final = 1 << 20
_LEAST_SHARES: Final = 64
_SHARES_PER_FILE: Final = 8


def held_batch_bytes(limit_bytes: int, num_files: int) -> int:
    """Return how large batches may be, if they are to be merged from so many files at once."""
    share = limit_bytes // max(_LEAST_SHARES, _SHARES_PER_FILE * num_files)
    return max(_LEAST_BATCH_BYTES, min(_MOST_BATCH_BYTES, share))


class Merge:
    """Merges runs of one plan.

    Args:
        plan: The plan, for sources and schema.
        limit_bytes: Memory to keep within: a quarter for batches of runs, an eighth for rows, half
            for records. One record may take more.
        scratch: Runs that are too many at once are merged into files whose names begin with it.
    """

    def __init__(self, plan: Plan, limit_bytes: int, scratch: Location) -> None:
        self._limit_bytes = limit_bytes
        self._scratch = scratch
        self._block_bytes = min(limit_bytes // 2, _MAX_BLOCK_BYTES) // _COPIES
        self._block_rows = min(limit_bytes // 8, _MAX_ROWS_BYTES) // _ROW_BYTES + 1
        self._hashes = np.array([source_hash(source) for source in plan.sources], dtype=np.uint64)
        schema = Schema.from_json(plan.fields)
        self._column = RecordColumn(schema.record_dtype.itemsize if schema.is_fixed else None)

    def blocks(self, runs: Sequence[SpillRun]) -> Generator[pa.Table, None, None]:
        """Yield the rows of all runs in the order of samples, as tables of ``SPILL_SCHEMA``."""
        runs = [run for run in runs if run.num_rows]
        with ExitStack() as before:
            while len(runs) > (most := self._fan_in(runs)):
                size = -(-len(runs) // -(-len(runs) // most))
                groups = [runs[start : start + size] for start in range(0, len(runs), size)]
                with ExitStack() as files:
                    runs = [files.enter_context(self._joined(group)) for group in groups]
                    before.close()
                    before.push(files.pop_all())
            yield from self._merged(runs)

    def _fan_in(self, runs: Sequence[SpillRun]) -> int:
        """Return how many runs are merged at once."""
        held = max((run.held_bytes for run in runs), default=0)
        return max(2, min(_MAX_RUNS, self._limit_bytes // 4 // max(1, held)))

    @contextmanager
    def _joined(self, runs: Sequence[SpillRun]) -> Iterator[SpillRun]:
        """Merge runs into one, in a file that is there as long as it is needed."""
        location = self._scratch.parent / f"{self._scratch.name}.{uuid.uuid4().hex}.arrow"
        location.write_atomic(lambda file: self._write(runs, file))
        for run in runs:
            run.file.close()
        file = ArrowWithTrailer(location)
        try:
            yield SpillRun(file, 0, file.trailer["num_rows"])
        finally:
            file.close()
            location.delete()

    def _write(self, runs: Sequence[SpillRun], file: BinaryIO) -> None:
        size = held_batch_bytes(self._limit_bytes, 1)
        writer = TrailerWriter(file, SPILL_SCHEMA, batch_bytes=size)
        for block in self._merged(runs):
            writer.write(block)
        writer.close({})

    def _merged(self, runs: Sequence[SpillRun]) -> Iterator[pa.Table]:
        records = [RunRecords(run) for run in runs]
        for rows in self._rows_in_order(runs):
            ends = np.cumsum(rows["size"], dtype=np.int64)
            start = 0
            while start < len(rows):
                end = end_within(ends, start, self._block_bytes)
                yield self._block(rows[start:end], records)
                start = end

    def _rows_in_order(self, runs: Sequence[SpillRun]) -> Iterator[NDArray[np.void]]:
        total = sum(run.num_rows for run in runs)
        # As keys are spread evenly, all runs then have loaded up to about the same key.
        aheads = [-(-run.num_rows * self._block_rows // total) for run in runs]
        cursors = [RunIndex(r, n, a) for n, (r, a) in enumerate(zip(runs, aheads, strict=True))]
        while cursors:
            bound = min((cursor.last_key for cursor in cursors if cursor.has_more), default=None)
            rows = np.concatenate([cursor.take(bound) for cursor in cursors])
            if len(rows):
                positions = (rows[name] for name in ("source", "offset", "ordinal"))
                yield rows[sample_order(rows["key"], self._hashes, *positions)]
            for cursor in cursors:
                # All rows of one key come together, so one that ended the block has to go on.
                if cursor.has_more and cursor.last_key == bound:
                    cursor.load()
                else:
                    cursor.fill()
            cursors = [cursor for cursor in cursors if not cursor.is_done]

    def _block(self, rows: NDArray[np.void], records: Sequence[RunRecords]) -> pa.Table:
        # The next rows of every run, in the order that they have there.
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
