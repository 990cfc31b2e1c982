"""A sorted run of rows of a spill file, read in two passes: rows without records, then records.

The rows tell a merge which samples come next and how large their records are, before any record is
read. The records follow in the same order, batch by batch. No column of a batch is read twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.pipeline.sorting._spill_file import ArrowWithTrailer
from trainfeed.storage import Location

__all__ = ["INDEX_COLUMNS", "RunIndex", "RunRecords", "SpillRun", "run_in", "scratch_file"]

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
