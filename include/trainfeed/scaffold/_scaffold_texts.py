"""The files of a new data set, with marks such as ``@NAME@``, which are replaced."""

from __future__ import annotations

from typing import Final

__all__ = ["PREPROCESS", "SPEC", "TRAIN"]

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
train: {entry: "train:main", window: 1, metric: accuracy, min: 0.6}

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

import numpy as np


def main(job):
    """Train on the versions of the job's window; return metrics by name.

    `job.open(split)` gives the samples, `job.output` is a folder for the model; `job.seed`,
    `job.rank` and `job.world_size` are the seed, the rank and the number of ranks.
    """
    features, labels = load(job.open("train"))
    weights, bias = np.zeros(features.shape[1]), 0.0
    for _ in range(2000):
        errors = 1 / (1 + np.exp(-(features @ weights + bias))) - labels
        weights -= 0.5 * errors @ features / len(labels)
        bias -= 0.5 * errors.mean()
    np.savez(job.output / "model.npz", weights=weights, bias=bias)

    features, labels = load(job.open("eval"))
    right = (features @ weights + bias > 0) == (labels == 1)
    return {
        "accuracy": right.mean() if len(labels) else 0.0,
        "base": max(labels.mean(), 1 - labels.mean()) if len(labels) else 0.0,
    }


def load(data):
    """Return features and labels of a split, shapes (n, 3) and (n,)."""
    blocks = list(data.iter_arrays())
    if not blocks:
        return np.zeros((0, 3)), np.zeros(0)
    features, labels = ([block[name] for block in blocks] for name in ("features", "label"))
    return np.concatenate(features), np.concatenate(labels)
'''
