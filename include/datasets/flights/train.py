"""Logistic regression over the last intervals: how likely is a flight to arrive late?

Evaluated on the ``eval`` split of the same intervals, so the score says how well flights are told
apart within days that the model has seen others of, not how well it foresees the next day.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from trainfeed.training import ConfigError, DataLoader, DatasetReader, TrainingJob

from .categories import NUM_BUCKETS

# Measured on 288 windows of the year: mean AUC 0.74, worst 0.52. Half or twice as many epochs move
# the mean by 0.01.
_NUM_EPOCHS: Final = 8
_BATCH_SIZE: Final = 32
_INDEX_RATE: Final = 0.1
_VALUE_RATE: Final = 0.05
_MAX_LOGIT: Final = 30.0  # beyond it the loss of a sure mistake stays finite
_EVAL_BATCH_SIZE: Final = 4096
# The set is small, and one rank reads it: windows of about a day's flights, loaded ahead by a
# thread. With the default of 64 MiB an epoch would begin with a wait for all samples.
_READ: Final = {"num_threads": 1, "lanes": 1, "window_bytes": 1 << 20, "epochs": _NUM_EPOCHS}
# A killed training computes at most so many steps again.
_STEPS_PER_CHECKPOINT: Final = 200
_MODEL_FILE: Final = "model.npz"

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]

logger = logging.getLogger(__name__)


@dataclass
class Model:
    """Log-odds = ``bias`` + the weights of the sample's indices + ``slopes`` · values.

    Attributes:
        weights: One per bucket, shape ``(NUM_BUCKETS,)``.
        slopes: One per value, shape ``(num_values,)``.
        bias: Log-odds of a sample of which nothing is known.
    """

    weights: Floats
    slopes: Floats
    bias: float

    def probabilities(self, samples: Arrays) -> Floats:
        """Return the chance of label 1 per sample, shape (n,)."""
        logits = self.bias + self.weights[samples["indices"]].sum(axis=1)
        logits += samples["values"] @ self.slopes
        chances: Floats = 1 / (1 + np.exp(-np.clip(logits, -_MAX_LOGIT, _MAX_LOGIT)))
        return chances

    def step(self, samples: Arrays, rate: float) -> float:
        """Follow the gradient of the mean log-loss of one batch; return the loss before it.

        Args:
            samples: One batch.
            rate: Factor on both learning rates.
        """
        labels, chances = samples["label"], self.probabilities(samples)
        errors = (chances - labels) / len(labels)
        np.add.at(self.weights, samples["indices"], -rate * _INDEX_RATE * errors[:, None])
        self.slopes -= rate * _VALUE_RATE * (errors @ samples["values"])
        self.bias -= rate * _VALUE_RATE * float(errors.sum())
        return log_loss(labels, chances)

    def write(self, folder: Path) -> None:
        """Write the model into a folder."""
        parts = {"weights": self.weights, "slopes": self.slopes, "bias": self.bias}
        np.savez(folder / _MODEL_FILE, **parts)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what ``write`` has written."""
        with np.load(folder / _MODEL_FILE, allow_pickle=False) as parts:
            return cls(parts["weights"], parts["slopes"], float(parts["bias"]))


def main(job: TrainingJob) -> dict[str, float]:
    """Train on the ``train`` split, leave ``model.npz`` in the job's output, and evaluate.

    Returns:
        ``auc`` and ``log_loss`` on the ``eval`` split, beside ``auc_base`` and ``log_loss_base`` of
        always predicting the share of late flights in the ``train`` split; and what was read.

    Raises:
        ConfigError: The job has more than one rank, or a split has no sample.
    """
    if job.world_size != 1:
        raise ConfigError(f"expected one rank, got {job.world_size}; set train.ranks to 1")
    train, evaluation = job.open("train"), job.open("eval")
    _require_samples(train)
    _require_samples(evaluation)
    base = _base_rate(train)
    model = _fit(job, base)
    model.write(job.output)
    with job.loader("eval", batch_size=_EVAL_BATCH_SIZE, shuffle=False) as batches:
        labels, chances = _predict(model, batches)
    return {
        "auc": auc(labels, chances),
        "auc_base": 0.5,
        "log_loss": log_loss(labels, chances),
        "log_loss_base": log_loss(labels, np.full(len(labels), base)),
        "base_rate": base,
        "train_samples": train.num_samples,
        "eval_samples": evaluation.num_samples,
    }


def predictor(folder: Path) -> Callable[[Arrays], dict[str, Floats]]:
    """Open a model.

    Returns:
        Function of ``indices`` and ``values`` that gives ``chance``, float64 of shape (n,): how
        likely each flight arrives 15 minutes late or more.
    """
    model = Model.read(folder)
    return lambda samples: {"chance": model.probabilities(samples)}


def complete(line: bytes) -> bytes:
    """Add placeholders for what is known of a flight only after its departure.

    The placeholders decide the label alone, which is not among what the model gets. Lines that are
    no JSON objects are left as they are: preprocessing turns them down.
    """
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(event, dict) or {"dep_time", "arr_delay"} <= event.keys():
        return line
    return json.dumps({"dep_time": 1, "arr_delay": 0, **event}).encode()


def _base_rate(train: DatasetReader) -> float:
    late = sum(int(samples["label"].sum()) for samples in train.iter_arrays())
    # One made-up sample of each kind: a window without a late flight still has finite log-odds.
    return (late + 1) / (train.num_samples + 2)


def _fit(job: TrainingJob, base: float) -> Model:
    """Return the model of all epochs; goes on at the checkpoint, if there is one."""
    train, step, seen = job.open("train"), 0, 0
    slopes = np.zeros(train.schema.record_dtype["values"].shape)
    # An index beyond the buckets fails loudly.
    model = Model(np.zeros(NUM_BUCKETS), slopes, float(np.log(base / (1 - base))))
    num_steps = _NUM_EPOCHS * train.num_samples
    with job.loader("train", batch_size=_BATCH_SIZE, **_READ) as batches:
        if (saved := job.restore()) is not None:
            model, step, seen = Model.read(saved.path), saved.step, saved.samples
        for _ in range(batches.due.epoch, _NUM_EPOCHS):
            for batch in batches:
                loss = model.step(batch, rate=1 - seen / num_steps)
                step, seen = step + 1, seen + batch.num_rows
                job.log_metrics(step, loss=loss)
                if step % _STEPS_PER_CHECKPOINT == 0:
                    job.save(step, model.write)
            job.progress(seen, num_steps)
    logger.info("%d steps of %d samples", step, seen)
    return model


def _predict(model: Model, batches: DataLoader) -> tuple[NDArray[np.int64], Floats]:
    pairs = [(batch["label"].copy(), model.probabilities(batch)) for batch in batches]
    labels, chances = zip(*pairs, strict=True)
    return np.concatenate(labels), np.concatenate(chances)


def _require_samples(data: DatasetReader) -> None:
    if data.num_samples == 0:
        raise ConfigError(
            f"expected samples in split {data.split!r} of {data.version}, found none;"
            " raise train.window"
        )


def auc(labels: NDArray[np.int64], scores: Floats) -> float:
    """Return the chance that a late flight scores above a punctual one; ties count half.

    Args:
        labels: 0 or 1, shape (n,).
        scores: Shape (n,).

    Returns:
        0.5 when all labels are equal: nothing can be told apart.
    """
    positives = int(labels.sum())
    negatives = len(labels) - positives
    if positives == 0 or negatives == 0:
        return 0.5
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2
    rank_sum = float(mean_ranks[places][labels == 1].sum())
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def log_loss(labels: NDArray[np.int64], chances: Floats) -> float:
    """Return the mean negative log-likelihood, in nats; shapes (n,)."""
    return float(-np.log(np.where(labels == 1, chances, 1 - chances)).mean())
