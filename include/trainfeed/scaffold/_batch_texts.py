"""The texts that differ in a new data set in batch mode."""

from __future__ import annotations

from typing import Final

__all__ = ["BATCH_EDITS", "BATCH_FUNCTION"]

_ONE_BY_ONE: Final = """\
The function sees one record at a time and must be pure: the same record always gives the same
samples. Its imports"""

_MANY: Final = """\
`make_samples` gets many records at once. Plain records become samples in arrays; all others
go through `make_sample`, one by one. Both must be pure: the same record always gives the same
samples, whatever records stand beside it. Their imports"""

_IMPORTS: Final = """\
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainfeed.preprocessing import Filtered, Reject, iter_records, json_columns
"""

# Replacements in dataset.yaml and preprocess.py: text of record mode → text of batch mode.
BATCH_EDITS: Final = (
    (
        'preprocess: {function: "preprocess:make_sample"}  # module:function in this folder',
        (
            'preprocess: {function: "preprocess:make_samples", input: batch}'
            "  # docs/guides/batch-mode.md"
        ),
    ),
    ("from trainfeed.preprocessing import Filtered, Reject\n", _IMPORTS),
    (_ONE_BY_ONE, _MANY),
)

# Appended to preprocess.py.
BATCH_FUNCTION: Final = '''

# The keys of a plain record. Other keys are ignored here; the rule about "bot" stands below.
FIELDS = {
    "visitor": pa.int64(),
    "pages": pa.int64(),
    "seconds": pa.float64(),
    "returning": pa.bool_(),
    "bought": pa.bool_(),
}
# A row is a sample, or a reason: _rejected (to quarantine, with _message) or _filtered (counted).
ROWS = pa.schema(
    {
        "_row": pa.int32(),
        "visitor": pa.int64(),
        "features": pa.list_(pa.float32(), 3),
        "label": pa.int64(),
        "_rejected": pa.utf8(),
        "_message": pa.utf8(),
        "_filtered": pa.utf8(),
    }
)


def make_samples(batch, lookups):
    """Return a row per sample of many records, the same samples as make_sample gives.

    `batch` has the columns value, key, timestamp, headers, source, offset and _row; every record
    needs a row in what is returned, or the build stops.
    """
    rows, columns = json_columns(batch.column("value"), FIELDS)
    # A backslash may spell a key in another way; null is nothing that arrays can calculate with.
    text = batch.column("value").take(pa.array(rows))
    is_plain = ~np.any(
        [np.asarray(pc.match_substring(text, part)) for part in ('"bot"', "\\\\")]
        + [np.asarray(column.is_null()) for column in columns.columns],
        axis=0,
    )
    plain = _rows_of_plain(rows[is_plain], columns.filter(pa.array(is_plain)))
    others = np.setdiff1d(np.arange(batch.num_rows), rows[is_plain])
    unusual = [_row_of(row, record, lookups) for row, record in iter_records(batch, others)]
    both = [plain, pa.RecordBatch.from_pylist(unusual, schema=ROWS)]
    return pa.concat_batches(both)


def _rows_of_plain(rows, columns):
    pages, seconds, returning, bought = (
        columns.column(name).to_numpy(zero_copy_only=False).astype(float)
        for name in ("pages", "seconds", "returning", "bought")
    )
    features = np.column_stack([pages / 20, seconds / 600, returning]).astype(np.float32)
    none = pa.nulls(len(rows), pa.utf8())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(rows, pa.int32()),
            columns.column("visitor"),
            pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), 3),
            pa.array(bought.astype(np.int64)),
            none,
            none,
            none,
        ],
        schema=ROWS,
    )


def _row_of(row, record, lookups):
    try:
        sample = make_sample(record, lookups)
    except Reject as error:
        return {"_row": row, "_rejected": error.reason, "_message": error.message}
    if isinstance(sample, Filtered):
        return {"_row": row, "_filtered": sample.reason}
    return {"_row": row, **sample}
'''
