"""Trains a factorisation machine with TensorFlow on the published TFRecord files.

::

    python -m examples.ctr.train_tensorflow --interval 2019-11-24/2019-11-30

TensorFlow alone reads the files, in parallel with the training, and makes a ``SparseTensor`` of
every batch; trainfeed only names the files of the versions. Needs TensorFlow, which is in the
environment of ``make peers-short``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
import tensorflow as tf
import typer

from trainfeed.readers import DatasetReader, open_dataset

__all__ = ["Machine", "batches_of", "totals_of"]

# As in include/datasets/ctr/features.py.
NUM_FEATURES: Final = 4096
BATCH_SIZE: Final = 256

_NUM_FACTORS: Final = 4
_RATE: Final = 0.001
_SHUFFLED: Final = 10_000
_FILES_AT_ONCE: Final = 4
_PARSED: Final = {
    "label": tf.io.FixedLenFeature([], tf.int64),
    "features": tf.io.SparseFeature(
        "indices", "values", tf.float32, NUM_FEATURES, already_sorted=True
    ),
}


def batches_of(data: DatasetReader, *, seed: int | None = None) -> Any:
    """Return a ``tf.data.Dataset`` of batches: ``label`` and ``features``, a ``SparseTensor``.

    Args:
        data: A split of versions in TFRecord files.
        seed: Seed of the order, another one in every pass; None keeps the order of the files.
    """
    paths = [str(path) for version in data.versions for path in version.shard_paths(data.split)]
    at_once = None if seed is None else _FILES_AT_ONCE
    records = tf.data.TFRecordDataset(paths, num_parallel_reads=at_once)
    if seed is not None:
        records = records.shuffle(_SHUFFLED, seed=seed)
    parsed = records.batch(BATCH_SIZE).map(
        lambda batch: tf.io.parse_example(batch, _PARSED), num_parallel_calls=tf.data.AUTOTUNE
    )
    return parsed.prefetch(tf.data.AUTOTUNE)


def totals_of(splits: Iterable[DatasetReader]) -> dict[str, float]:
    """Return what TensorFlow finds in all samples, by the names of the writer's ledger."""
    totals = dict.fromkeys(("samples", "clicks", "features", "index_sum", "value_sum"), 0.0)
    for data in splits:
        for batch in batches_of(data):
            features = batch["features"]
            totals["samples"] += len(batch["label"])
            totals["clicks"] += int(tf.reduce_sum(batch["label"]))
            totals["features"] += len(features.values)
            totals["index_sum"] += int(tf.reduce_sum(features.indices[:, 1]))
            totals["value_sum"] += float(tf.reduce_sum(tf.cast(features.values, tf.float64)))
    return totals


@dataclass
class Machine:
    """A factorisation machine: a weight per feature, and the products of pairs of features.

    Attributes:
        bias: Log-odds of a sample of which nothing is known.
        weights: Shape ``(NUM_FEATURES, 1)``.
        factors: Shape ``(NUM_FEATURES, 4)``; the product of two features counts as much as the
            product of their rows.
    """

    bias: tf.Variable
    weights: tf.Variable
    factors: tf.Variable

    @classmethod
    def begin(cls, click_rate: float, seed: int) -> Machine:
        """Return a machine that predicts the click rate for every sample."""
        noise = tf.random.stateless_normal((NUM_FEATURES, _NUM_FACTORS), (seed, 0), stddev=0.01)
        bias = float(np.log(click_rate / (1 - click_rate)))
        return cls(tf.Variable(bias), tf.Variable(tf.zeros((NUM_FEATURES, 1))), tf.Variable(noise))

    @property
    def variables(self) -> list[tf.Variable]:
        """What a training changes."""
        return [self.bias, self.weights, self.factors]

    def logits(self, features: tf.SparseTensor) -> tf.Tensor:
        """Return the log-odds of a click, shape (n,)."""
        squares = tf.SparseTensor(features.indices, features.values**2, features.dense_shape)
        of_pairs = tf.sparse.sparse_dense_matmul(features, self.factors) ** 2
        of_pairs -= tf.sparse.sparse_dense_matmul(squares, self.factors**2)
        linear = tf.sparse.sparse_dense_matmul(features, self.weights)[:, 0]
        return self.bias + linear + 0.5 * tf.reduce_sum(of_pairs, axis=1)


def train(data: DatasetReader, epochs: int, seed: int, click_rate: float) -> Machine:
    """Return a machine after so many passes over a split."""
    machine = Machine.begin(click_rate, seed)
    optimizer = tf.keras.optimizers.Adam(_RATE)

    @tf.function  # type: ignore[untyped-decorator]
    def step(label: tf.Tensor, features: tf.SparseTensor) -> None:
        with tf.GradientTape() as tape:
            loss = _log_loss(label, machine.logits(features))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, machine.variables), machine.variables, strict=True)
        )

    for epoch in range(epochs):
        for batch in batches_of(data, seed=seed + epoch):
            step(batch["label"], batch["features"])
    return machine


def evaluate(machine: Machine, data: DatasetReader, click_rate: float) -> dict[str, float]:
    """Return ``auc`` and ``log_loss``, and the log-loss of always saying the click rate."""
    found = [(batch["label"], machine.logits(batch["features"])) for batch in batches_of(data)]
    labels, logits = (tf.concat(column, axis=0) for column in zip(*found, strict=True))
    auc = tf.keras.metrics.AUC(num_thresholds=1000, from_logits=True)
    auc.update_state(labels, logits)
    constant = tf.fill(tf.shape(logits), float(np.log(click_rate / (1 - click_rate))))
    return {
        "auc": float(auc.result()),
        "log_loss": float(_log_loss(labels, logits)),
        "log_loss_base": float(_log_loss(labels, constant)),
    }


def _log_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    losses = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels, tf.float32), logits)
    return tf.reduce_mean(losses)


def main(
    *,
    interval: Annotated[str, typer.Option(help="Interval or range, as trainfeed names it.")],
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the split train.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of order and start.")] = 7,
) -> None:
    """Print what TensorFlow found in the files, and how well the machine tells clicks."""
    training, evaluation = (
        open_dataset("ctr", interval=interval, split=split) for split in ("train", "eval")
    )
    totals = totals_of([training, evaluation])
    known = totals_of([training])
    click_rate = known["clicks"] / known["samples"]
    machine = train(training, epochs, seed, click_rate)
    typer.echo(json.dumps({**totals, **evaluate(machine, evaluation, click_rate)}))


if __name__ == "__main__":
    typer.run(main)
