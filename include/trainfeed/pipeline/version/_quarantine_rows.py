"""The quarantined records of all tasks, in batches that depend on the rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainfeed.pipeline.sorting import QUARANTINE_SCHEMA, ArrowWithTrailer
from trainfeed.pipeline.stage import Stage

__all__ = ["quarantine_batches"]

_BATCH_ROWS: Final = 16_384
_BATCH_BYTES: Final = 1 << 20
_END_BYTES: Final = 4


def quarantine_batches(stage: Stage) -> Iterator[pa.Table]:
    """Yield the records in order: equal numbers of rows, at most 16,384 and about 1 MiB.

    The published bytes must not tell how the records were divided among tasks: rows of
    neighbouring tasks share a batch. Work files are read twice, because the size of a batch comes
    from the mean size of all rows.
    """
    num_rows = _rows_per_batch(stage)
    waiting = QUARANTINE_SCHEMA.empty_table()
    for table in _tables(stage):
        waiting = pa.concat_tables([waiting, table])
        while len(waiting) >= num_rows:
            yield _copied(waiting.slice(0, num_rows))
            waiting = waiting.slice(num_rows)
    if len(waiting):
        yield _copied(waiting)


def _copied(table: pa.Table) -> pa.Table:
    """Return equal rows in one chunk of their own: Arrow writes other bytes for parts of others."""
    return table.combine_chunks().take(pa.array(np.arange(len(table))))


def _tables(stage: Stage) -> Iterator[pa.Table]:
    # Groups have ranges in order, and ranges have records in order, so the files one after another
    # are sorted.
    for group in range(len(stage.plan.preprocess)):
        with closing(ArrowWithTrailer(stage.quarantine_file(group), QUARANTINE_SCHEMA)) as file:
            yield from file.iter_tables()


def _rows_per_batch(stage: Stage) -> int:
    """Return the rows that fit into a batch, as Arrow counts the bytes of one table of all rows."""
    rows, value_bytes, nulls = 0, 0, dict.fromkeys(QUARANTINE_SCHEMA.names, 0)
    for table in _tables(stage):
        rows += len(table)
        for name in QUARANTINE_SCHEMA.names:
            column = table[name]
            nulls[name] += column.null_count
            if _is_variable(column.type):
                value_bytes += pc.sum(pc.binary_length(column)).as_py() or 0
    if not rows:
        return 1
    row_bytes = sum(
        0 if _is_variable(field.type) else field.type.bit_width // 8 for field in QUARANTINE_SCHEMA
    )
    ends = _END_BYTES * (rows + 1) * sum(_is_variable(field.type) for field in QUARANTINE_SCHEMA)
    bitmaps = -(-rows // 8) * sum(count > 0 for count in nulls.values())
    mean_bytes = (rows * row_bytes + value_bytes + ends + bitmaps) // rows
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // mean_bytes))


def _is_variable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_string(kind))
