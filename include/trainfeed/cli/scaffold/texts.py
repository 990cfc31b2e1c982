"""The files of a new data set, with marks such as ``@NAME@``, which are replaced."""

from __future__ import annotations

from typing import Final

# --- The texts that differ in a new data set in batch mode

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


# --- The files of a new data set, with marks such as ``@NAME@``, which are replaced

SPEC: Final = """\
# yaml-language-server: $schema=@SCHEMA@
# The specification of the data set @NAME@. The schema above, which editors read, has every field
# with its default and its values; `trainfeed schema` prints it.

name: "@NAME@"                    # the folder's name; gives the DAGs build.@NAME@ and train.@NAME@
description: Will the visitor buy something?     # shown in Airflow
schedule: "@daily"                # cron or preset, UTC; a version holds [tick, next tick)
start: @FIRST@                 # the first tick
end: @LAST@                   # the last tick, inclusive; remove it when the source goes on
catchup: false                    # true: the DAG, once switched on, builds past intervals
seed: 7                           # decides the order of samples

source:
  # Some hundred records in the folder sample, to begin with. A path that starts with ./ starts in
  # this folder.
  recorded: {path: ./sample}
  # Your own topic: the connection is one of Airflow's, or TRAINFEED_KAFKA on the command line.
  # kafka: {connection: kafka_default, topic: @NAME@, settle: 30m}

preprocess: {function: "preprocess:make_sample"}  # module:function in this folder

# lookups: {visitors: visitors.parquet}   # files of this folder; the function gets them as tables

schema:                           # the fields of a sample; without shape, a single value
  visitor:  {dtype: int64}
  features: {dtype: float32, shape: [3]}
  label:    {dtype: int64}

split: {train: 0.8, eval: 0.2, by: [visitor]}     # all samples of a visitor stay in one split

output: {codec: zstd, samples_per_shard: 100000}

quality:                          # gates that a version has to pass before it is published
  - {check: count, min: 50}
  - {check: quarantine_ratio, max: 0.05}
  - {check: range, field: label, min: 0, max: 1}

# Training after every published version; remove this part and train.py if there is none.
train:
  entry: "train:main"
  window: 1
  metric: accuracy
  min: 0.6
  model:                          # a training that passes becomes a version of the model
    name: "@MODEL@"
    metrics: {accuracy: {min: 0.6}}
    predict: "train:predictor"    # for trainfeed predict and trainfeed serve
    labels: [label]               # unknown when a prediction is made
    complete: "train:complete"    # fills in what a record without labels lacks

retention: {keep_generations: 3}

# resources: {pool: kafka_reads, max_active_runs: 4}   # a pool bounds how many tasks read at once
"""

PREPROCESS: Final = '''\
"""Records of @NAME@ → samples.

The function sees one record at a time and must be pure: the same record always gives the same
samples. Its imports must be installed, or lie in this folder (`from . import other`).
"""

from trainfeed.preprocessing import Filtered, Reject


def make_sample(record, lookups):
    """Return a sample: a value per field of the schema in dataset.yaml.

    Several samples are returned as a list. `record` has value, key, timestamp, headers, source
    and offset; `lookups` has a table per lookup of dataset.yaml.
    """
    row = record.json()  # a record that is not JSON goes to quarantine, with position and bytes
    if not isinstance(row, dict):
        raise Reject("no_object")
    if row.get("bot"):
        return Filtered("bot")  # good, but not wanted: counted by reason
    try:
        features = [row["pages"] / 20, row["seconds"] / 600, float(row["returning"])]
        visitor, label = int(row["visitor"]), int(row["bought"])
    except (KeyError, TypeError, ValueError) as error:
        # A broken record goes to quarantine. Any other exception stops the build.
        raise Reject("bad_field", repr(error)) from error
    return {"visitor": visitor, "features": features, "label": label}
'''

TRAIN: Final = '''\
"""Training on @NAME@: logistic regression, as an example of how samples are read."""

import json

import numpy as np

EPOCHS, BATCH_SIZE, RATE = 60, 32, 0.5


def main(job):
    """Train on the versions of the job's window; return metrics by name.

    `job.loader(split, batch_size=…)` gives batches, field → array, an epoch per `for`; every rank
    gets its share. `job.output` is a folder for the model, `job.seed` is the seed. A training that
    was killed goes on at its last checkpoint: `job.save` makes one, `job.restore` gives it back.
    """
    model, step = np.zeros(4), 0  # three weights and a bias
    with job.loader("train", batch_size=BATCH_SIZE) as batches:
        if (saved := job.restore()) is not None:
            model, step = np.load(saved.path / "model.npy", allow_pickle=False), saved.step
        for _ in range(batches.due.epoch, EPOCHS):
            for batch in batches:
                chances = 1 / (1 + np.exp(-logits(model, batch)))
                errors = (chances - batch["label"]) / len(chances)
                model -= RATE * np.append(errors @ batch["features"], errors.sum())
                step += 1
                job.log_metrics(step, error=np.abs(errors).sum())
            job.progress(batches.due.epoch, EPOCHS)
            if batches.due.epoch % 10 == 0:
                job.save(step, lambda folder: np.save(folder / "model.npy", model))
    np.save(job.output / "model.npy", model)

    right, labels = [], []
    with job.loader("eval", batch_size=1024, shuffle=False) as batches:
        for batch in batches:
            right += list((logits(model, batch) > 0) == (batch["label"] == 1))
            labels += list(batch["label"])
    return {
        "accuracy": np.mean(right) if labels else 0.0,
        "base": max(np.mean(labels), 1 - np.mean(labels)) if labels else 0.0,
    }


def predictor(folder):
    """Open the model in a folder; return a function of fields → arrays that gives predictions."""
    model = np.load(folder / "model.npy", allow_pickle=False)
    return lambda batch: {"chance": 1 / (1 + np.exp(-logits(model, batch)))}


def complete(value):
    """Give a record that lacks its label a placeholder, so that make_sample takes it."""
    try:
        row = json.loads(value)
    except ValueError:
        return value
    return json.dumps({"bought": False, **row}).encode() if isinstance(row, dict) else value


def logits(model, batch):
    """Return the log-odds of a batch, shape (n,)."""
    return batch["features"] @ model[:3] + model[3]
'''
