"""Merges sorted runs of samples, block by block, within a bound of memory.

A block is everything that sorts before the smallest key that a run has loaded last: rows that are
still in the files cannot belong before it. It is sorted as a whole, so the cost per sample is that
of sorting, and nothing is done sample by sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.build._plan_file import Plan
from trainfeed.build._sort import RecordColumn, sample_order
from trainfeed.build._spill import ArrowWithTrailer
from trainfeed.dataset.identity import source_hash
from trainfeed.samples import Schema

__all__ = ["MERGED_SCHEMA", "Merge", "Run"]

MERGED_SCHEMA: Final = pa.schema(
    {
        "key": pa.uint64(),
        "source": pa.int32(),
        "offset": pa.int64(),
        "ordinal": pa.int32(),
        "record": pa.binary(),
    }
)
# A block is loaded, put together, and put in order: three copies, and what stays behind.
_COPIES: Final = 4
_LEAST_ROWS: Final = 64
# More memory makes no merge faster. Measured with 34 runs: 24 MiB take 1.5 times as long, 256 MiB
# as long as this.
_MAX_BLOCK_BYTES: Final = 96 << 20


class Run(NamedTuple):
    """Rows ``[start, end)`` of a spill file, sorted by key."""

    file: ArrowWithTrailer
    start: int
    end: int

    @property
    def num_bytes(self) -> int:
        """About how much memory its rows take."""
        return (self.end - self.start) * int(self.file.trailer["row_bytes"])


class Merge:
    """Merges runs of one plan.

    Args:
        plan: The plan, for sources and schema.
        limit_bytes: Memory to keep within, whatever the runs have.
    """

    def __init__(self, plan: Plan, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._hashes = np.array([source_hash(source) for source in plan.sources], dtype=np.uint64)
        schema = Schema.from_json(plan.fields)
        self._column = RecordColumn(schema.record_dtype.itemsize if schema.is_fixed else None)

    def blocks(self, runs: Sequence[Run]) -> Iterator[pa.Table]:
        """Yield the rows of all runs in the order of samples, as tables of ``MERGED_SCHEMA``."""
        runs = [run for run in runs if run.start < run.end]
        num_bytes = sum(run.num_bytes for run in runs)
        whole = num_bytes * _COPIES <= min(self._limit_bytes, _MAX_BLOCK_BYTES)
        held = sum(run.file.trailer["batch_rows"] * run.file.trailer["row_bytes"] for run in runs)
        keeps_batch = held * 2 <= self._limit_bytes
        share = min(self._limit_bytes, _MAX_BLOCK_BYTES) // (_COPIES * max(1, len(runs)))
        cursors = [_Cursor(run, None if whole else share, keeps_batch=keeps_batch) for run in runs]
        while cursors:
            block = self._next_block(cursors)
            if block is not None:
                yield block
            cursors = [cursor for cursor in cursors if not cursor.is_done]

    def _next_block(self, cursors: list[_Cursor]) -> pa.Table | None:
        unread = [cursor for cursor in cursors if cursor.has_more]
        if not unread:
            return self._sorted([cursor.take() for cursor in cursors])
        bound = min(cursor.last_key for cursor in unread)
        pieces = [cursor.take(bound) for cursor in cursors]
        # Those that ended the block go on; all rows of one key come into one block.
        for cursor in unread:
            if cursor.last_key == bound:
                cursor.load()
        return self._sorted(pieces) if any(map(len, pieces)) else None

    def _sorted(self, pieces: list[pa.Table]) -> pa.Table:
        table = pa.concat_tables(pieces)
        keys, sources, offsets, ordinals = (
            table[name].to_numpy() for name in ("key", "source", "offset", "ordinal")
        )
        order = sample_order(keys, self._hashes, sources, offsets, ordinals)
        columns: list[Any] = [pa.array(c[order]) for c in (keys, sources, offsets, ordinals)]
        columns.append(self._column.gather(table["record"].chunks, order))
        return pa.Table.from_arrays(columns, schema=MERGED_SCHEMA)


class _Cursor:
    """What is loaded of a run, and not taken yet."""

    def __init__(self, run: Run, share_bytes: int | None, *, keeps_batch: bool) -> None:
        self._run = run
        self._next = run.start
        self._keeps_batch = keeps_batch
        self._load_rows = run.end - run.start
        if share_bytes is not None:
            self._load_rows = max(_LEAST_ROWS, share_bytes // run.file.trailer["row_bytes"])
        self._table = MERGED_SCHEMA.empty_table()
        self._keys: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        # The largest that was loaded; whatever is still in the file is not below it.
        self.last_key = np.uint64(0)
        self.load()

    @property
    def has_more(self) -> bool:
        """Whether rows of it are still in the file."""
        return self._next < self._run.end

    @property
    def is_done(self) -> bool:
        """Whether all of it was taken."""
        return not self.has_more and not len(self._keys)

    def load(self) -> None:
        """Load more rows, if there are any."""
        end = min(self._next + self._load_rows, self._run.end)
        if self._next < end:
            rows = self._run.file.rows(self._next, end, keeps_batch=self._keeps_batch)
            self._table = pa.concat_tables([self._table, rows.select(MERGED_SCHEMA.names)])
            self._keys = self._table["key"].to_numpy()
            self.last_key = np.uint64(self._keys[-1])
            self._next = end

    def take(self, bound: np.uint64 | None = None) -> pa.Table:
        """Return, and drop, the loaded rows below ``bound``, or all."""
        count = len(self._keys) if bound is None else int(np.searchsorted(self._keys, bound))
        taken, self._table = self._table.slice(0, count), self._table.slice(count)
        self._keys = self._keys[count:]
        return taken
