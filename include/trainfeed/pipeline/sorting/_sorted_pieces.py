"""Sorts pieces of samples that arrive in any order, within a bound of memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc

from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.sorting._merge_runs import Merge, held_batch_bytes
from trainfeed.pipeline.sorting._sample_order import RecordColumn, hashes_of, sample_order
from trainfeed.pipeline.sorting._sorted_run import run_in, scratch_file
from trainfeed.pipeline.sorting._spill_writer import RECORD, SPILL_SCHEMA, TrailerWriter
from trainfeed.samples import Schema
from trainfeed.storage import Location

__all__ = ["PieceSorter"]

# Sorting holds pieces three times: as they came, joined, and in order; a fourth part is for the
# piece that comes next and for who takes the samples.
_COPIES: Final = 4
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
