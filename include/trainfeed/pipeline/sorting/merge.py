"""Merges sorted runs of samples, block by block, within a bound of memory."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.files.stores import Location
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.sorting.spill_files import (
    RECORD,
    SPILL_SCHEMA,
    ArrowWithTrailer,
    RecordColumn,
    TrailerWriter,
    end_within,
    hashes_of,
    sample_order,
)
from trainfeed.samples import Schema

# --- A sorted run of rows of a spill file, read in two passes: rows without records, then records

# A row without its record; ``size`` is the size of the record, ``run`` the number of its run.
_INDEX: Final = np.dtype(
    [
        ("key", "u8"),
        ("offset", "i8"),
        ("source", "i4"),
        ("ordinal", "i4"),
        ("size", "i4"),
        ("run", "u4"),
    ]
)
INDEX_COLUMNS: Final = ("key", "offset", "source", "ordinal", "size")


class SpillRun(NamedTuple):
    """Rows ``[start, end)`` of a spill file, sorted by key."""

    file: ArrowWithTrailer
    start: int
    end: int

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.end - self.start

    @property
    def held_bytes(self) -> int:
        """Most memory of the run in a merge: a batch of records, and the rows of two batches."""
        return 2 * int(self.file.trailer["held_bytes"])


def scratch_file(scratch: Location) -> Location:
    """Return a new name for a temporary file, with the prefix ``scratch``."""
    return scratch.parent / f"{scratch.name}.{uuid.uuid4().hex}.arrow"


@contextmanager
def run_in(location: Location) -> Iterator[SpillRun]:
    """Open a temporary file as one run; it is deleted at the end of the context."""
    file = ArrowWithTrailer(location)
    try:
        yield SpillRun(file, 0, file.trailer["num_rows"])
    finally:
        file.close()
        location.delete()


class RunIndex:
    """The rows of a run that are loaded and not yet taken.

    Args:
        run: The run; it is not empty.
        number: Number of the run, for the column ``run``.
        ahead: Number of rows that should be loaded, at least.

    Attributes:
        last_key: The largest loaded key; no key that is still in the file is below it.
    """

    def __init__(self, run: SpillRun, number: int, ahead: int) -> None:
        self._run = run
        self._number = number
        self._ahead = ahead
        self._batches = iter(run.file.batches(run.start, run.end))
        self._next = run.start
        self._rows = np.empty(0, _INDEX)
        self.last_key = 0
        self.load()

    @property
    def has_more(self) -> bool:
        """Whether rows of the run are still in the file only."""
        return self._next < self._run.end

    @property
    def is_done(self) -> bool:
        """Whether all rows were taken."""
        return not self.has_more and not len(self._rows)

    def fill(self) -> None:
        """Load more if fewer than ``ahead`` rows are left."""
        if len(self._rows) < self._ahead:
            self.load()

    def load(self) -> None:
        """Load the next batch, and further ones until ``ahead`` rows are loaded."""
        parts = [self._rows]
        missing = max(1, self._ahead - len(self._rows))
        while missing > 0 and self.has_more:
            parts.append(self._load_batch())
            missing -= len(parts[-1])
        if len(parts) > 1:
            self._rows = np.concatenate(parts)
            self.last_key = int(self._rows["key"][-1])

    def take(self, bound: int | None) -> NDArray[np.void]:
        """Return and drop the loaded rows with keys below ``bound``, or all of them for None."""
        count = len(self._rows)
        if bound is not None:
            count = int(np.searchsorted(self._rows["key"], np.uint64(bound)))
        taken, self._rows = self._rows[:count], self._rows[count:]
        return taken

    def _load_batch(self) -> NDArray[np.void]:
        index = next(self._batches)
        first = self._run.file.trailer["starts"][index]
        # The first and the last batch may have rows of other shards: the slice cuts those before
        # ``_next`` and from ``end`` on.
        batch = self._run.file.head(index)
        batch = batch.slice(self._next - first, self._run.end - self._next)
        rows = np.empty(len(batch), _INDEX)
        for name in INDEX_COLUMNS:
            rows[name] = batch.column(name).to_numpy()
        rows["run"] = self._number
        self._next += len(batch)
        return rows


class RunRecords:
    """The records of a run, in their order.

    Args:
        run: The run.
    """

    def __init__(self, run: SpillRun) -> None:
        self._run = run
        self._batches = iter(run.file.batches(run.start, run.end))
        self._next = run.start
        self._rest: pa.Array = pa.array([], pa.binary())

    def take(self, count: int) -> list[pa.Array]:
        """Return the next ``count`` records as binary arrays; the run must have that many."""
        parts = []
        while count:
            if not len(self._rest):
                self._rest = self._read_batch()
            part = self._rest.slice(0, count)
            self._rest = self._rest.slice(len(part))
            parts.append(part)
            count -= len(part)
        if not len(self._rest):
            # An empty slice would keep the memory of its whole batch.
            self._rest = pa.array([], pa.binary())
        return parts

    def _read_batch(self) -> pa.Array:
        index = next(self._batches)
        first = self._run.file.trailer["starts"][index]
        # Cut at both ends as in ``RunIndex._load_batch``.
        records = self._run.file.records(index)
        part = records.slice(self._next - first, self._run.end - self._next)
        self._next += len(part)
        return part


# --- Merges sorted runs of samples, block by block, within a bound of memory

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
                yield rows.take(sample_order(rows["key"], self._hashes, *positions))
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


# --- Sorts pieces of samples that arrive in any order, within a bound of memory

# Sorting holds pieces three times: as they came, joined, and in order; a fourth part is for the
# piece that comes next and for who takes the samples.
# Rows of a table that is given away: a view of what is held.
_BLOCK_ROWS: Final = 16_384
# The batches of a file are cut as if as many files were merged at once.
_USUAL_FILES: Final = 16


class PieceSorter:
    """Puts the samples of pieces in the order of samples.

    Args:
        plan: The plan, for sources and schema.
        limit_bytes: Memory for sorting. Samples that take more go through files, which are merged.
        scratch: Prefix of these files.

    Attributes:
        spilled_bytes: Bytes of the files so far; those of a merge in several rounds do not count.
    """

    def __init__(self, plan: Plan, limit_bytes: int, scratch: Location) -> None:
        self._plan = plan
        self._limit_bytes = limit_bytes
        self._scratch = scratch
        self.spilled_bytes = 0
        self._hashes = hashes_of(plan.sources)
        self._column = RecordColumn.of(Schema.from_json(plan.fields))

    def blocks(self, pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield all samples in their order, as tables of ``SPILL_SCHEMA``.

        Args:
            pieces: Tables of ``SPILL_SCHEMA``, in any order, each sorted or not.
        """
        held: list[pa.Table] = []
        with ExitStack() as files:
            runs = [
                files.enter_context(run_in(location)) for location in self._spills(pieces, held)
            ]
            yield from _blocks(self._taken(held))
            yield from Merge(self._plan, self._limit_bytes, self._scratch).blocks(runs)

    def _spills(self, pieces: Iterable[pa.Table], held: list[pa.Table]) -> Iterator[Location]:
        """Yield files with the pieces; if all fit into the memory, they are in ``held`` instead."""
        num_bytes = 0
        is_first = True
        for piece in pieces:
            if held and num_bytes + piece.nbytes > self._limit_bytes // _COPIES:
                yield self._spilled(held)
                num_bytes, is_first = 0, False
            held.append(piece)
            num_bytes += piece.nbytes
        if held and not is_first:
            yield self._spilled(held)

    def _taken(self, held: list[pa.Table]) -> pa.Table:
        """Return the pieces as one table in order; the list is cleared, to free their memory."""
        table = self._sorted(held) if held else SPILL_SCHEMA.empty_table()
        held.clear()
        return table

    def _sorted(self, pieces: Sequence[pa.Table]) -> pa.Table:
        table = pa.concat_tables(pieces)
        keys, *places = (table[name].to_numpy() for name in ("key", "source", "offset", "ordinal"))
        order = sample_order(keys, self._hashes, *places)
        record = self._column.gather(table[RECORD].chunks, order)
        columns = [pa.array(each[order]) for each in (keys, *places)]
        return pa.table([*columns, pc.binary_length(record), record], schema=SPILL_SCHEMA)

    def _spilled(self, held: list[pa.Table]) -> Location:
        """Write the pieces in order into a file; the list is cleared, to free their memory."""
        location = scratch_file(self._scratch)
        table = self._taken(held)
        location.write_atomic(lambda file: self._write(table, file))
        return location

    def _write(self, table: pa.Table, file: BinaryIO) -> None:
        size = held_batch_bytes(self._limit_bytes, _USUAL_FILES)
        writer = TrailerWriter(file, SPILL_SCHEMA, batch_bytes=size)
        for block in _blocks(table):
            writer.write(block)
        writer.close({})
        self.spilled_bytes += file.tell()


def _blocks(table: pa.Table) -> Iterator[pa.Table]:
    yield from (table.slice(start, _BLOCK_ROWS) for start in range(0, len(table), _BLOCK_ROWS))
