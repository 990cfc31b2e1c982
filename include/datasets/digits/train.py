"""Softmax regression: which digit does an image show?"""

from __future__ import annotations

import logging
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.training import ConfigError, DatasetReader, TrainingJob

NUM_LABELS: Final = 10
MAX_PIXEL: Final = 16

_NUM_EPOCHS: Final = 30
_BATCH_SIZE: Final = 32
_RATE: Final = 0.2

Floats = NDArray[np.float64]

logger = logging.getLogger(__name__)


def main(job: TrainingJob) -> dict[str, float]:
    """Train on the ``train`` split, leave ``model.npz`` in the job's output, and evaluate.

    Returns:
        ``accuracy`` on the ``eval`` split, beside ``accuracy_base`` of always saying the digit
        that is most frequent there; and what was read.

    Raises:
        ConfigError: The job has more than one rank, or a split has no sample.
    """
    if job.world_size != 1:
        raise ConfigError(f"expected one rank, got {job.world_size}; set train.ranks to 1")
    images, labels = _read(job.open("train"))
    weights = _fit(images, labels, seed=job.seed)
    np.savez(job.output / "model.npz", weights=weights)
    eval_images, eval_labels = _read(job.open("eval"))
    guesses = (eval_images @ weights).argmax(axis=1)
    return {
        "accuracy": float((guesses == eval_labels).mean()),
        "accuracy_base": float(np.bincount(eval_labels).max() / len(eval_labels)),
        "train_samples": len(labels),
        "eval_samples": len(eval_labels),
    }


def _read(data: DatasetReader) -> tuple[Floats, NDArray[np.int64]]:
    """Return images, scaled to 0 to 1 with a constant 1 as the last column, and labels."""
    if data.num_samples == 0:
        raise ConfigError(
            f"expected samples in split {data.split!r} of {data.version}, found none;"
            " raise train.window"
        )
    chunks: list[dict[str, NDArray[Any]]] = list(data.iter_arrays())
    pixels = np.concatenate([chunk["pixels"] for chunk in chunks]) / MAX_PIXEL
    images = np.hstack([pixels, np.ones((len(pixels), 1))])
    return images, np.concatenate([chunk["label"] for chunk in chunks])


def _fit(images: Floats, labels: NDArray[np.int64], *, seed: int) -> Floats:
    """Return weights of shape (65, 10), by stochastic gradient descent on the log-loss."""
    weights: Floats = np.zeros((images.shape[1], NUM_LABELS))
    wanted = np.eye(NUM_LABELS)[labels]
    rng = np.random.default_rng(seed)
    for epoch in range(_NUM_EPOCHS):
        order = rng.permutation(len(labels))
        for start in range(0, len(order), _BATCH_SIZE):
            rows = order[start : start + _BATCH_SIZE]
            errors = _softmax(images[rows] @ weights) - wanted[rows]
            weights -= _RATE / len(rows) * (images[rows].T @ errors)
        logger.info("epoch %d of %d", epoch + 1, _NUM_EPOCHS)
    return weights


def _softmax(logits: Floats) -> Floats:
    # Shifted, so that no exponential overflows.
    exponentials: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)
