"""Logistic regression over the last intervals: how likely is a flight to arrive late?

Evaluated on the ``eval`` split of the same intervals, so the score says how well flights are told
apart within days that the model has seen others of, not how well it foresees the next day.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.training import ConfigError, DatasetReader, TrainingJob

from .categories import NUM_BUCKETS

# Measured on all 366 windows of the year: mean AUC 0.74, worst 0.53. Half or twice as many epochs
# move the mean by 0.01.
_NUM_EPOCHS: Final = 8
_BATCH_SIZE: Final = 32
_INDEX_RATE: Final = 0.1
_VALUE_RATE: Final = 0.05
_MAX_LOGIT: Final = 30.0  # beyond it the loss of a sure mistake stays finite

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

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

    def step(self, samples: Arrays, rate: float) -> None:
        """Follow the gradient of the mean log-loss of one batch.

        Args:
            samples: One batch.
            rate: Factor on both learning rates.
        """
        errors = (self.probabilities(samples) - samples["label"]) / len(samples["label"])
        np.add.at(self.weights, samples["indices"], -rate * _INDEX_RATE * errors[:, None])
        self.slopes -= rate * _VALUE_RATE * (errors @ samples["values"])
        self.bias -= rate * _VALUE_RATE * float(errors.sum())


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
    base = _base_rate(train)
    model = _fit(train, base, seed=job.seed)
    np.savez(job.output / "model.npz", weights=model.weights, slopes=model.slopes, bias=model.bias)
    labels, chances = _predict(model, evaluation)
    return {
        "auc": auc(labels, chances),
        "auc_base": 0.5,
        "log_loss": log_loss(labels, chances),
        "log_loss_base": log_loss(labels, np.full(len(labels), base)),
        "base_rate": base,
        "train_samples": train.num_samples,
        "eval_samples": evaluation.num_samples,
    }


def _base_rate(train: DatasetReader) -> float:
    _require_samples(train)
    late = sum(int(samples["label"].sum()) for samples in train.iter_arrays())
    # One made-up sample of each kind: a window without a late flight still has finite log-odds.
    return (late + 1) / (train.num_samples + 2)


def _fit(train: DatasetReader, base: float, *, seed: int) -> Model:
    slopes = np.zeros(train.schema.record_dtype["values"].shape)
    # An index beyond the buckets fails loudly.
    model = Model(np.zeros(NUM_BUCKETS), slopes, float(np.log(base / (1 - base))))
    rng = np.random.default_rng(seed)
    num_steps = _NUM_EPOCHS * train.num_samples
    seen = 0
    for epoch in range(_NUM_EPOCHS):
        for samples in train.iter_arrays():
            order = rng.permutation(len(samples["label"]))
            for start in range(0, len(order), _BATCH_SIZE):
                rows = order[start : start + _BATCH_SIZE]
                batch = {name: column[rows] for name, column in samples.items()}
                model.step(batch, rate=1 - seen / num_steps)
                seen += len(rows)
        logger.info("epoch %d of %d: %d samples seen", epoch + 1, _NUM_EPOCHS, seen)
    return model


def _predict(model: Model, evaluation: DatasetReader) -> tuple[NDArray[np.int64], Floats]:
    _require_samples(evaluation)
    labels, chances = [], []
    for samples in evaluation.iter_arrays():
        labels.append(samples["label"])
        chances.append(model.probabilities(samples))
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
