"""Softmax regression: which digit does an image show? Trains, judges and predicts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.training import ConfigError, TrainingJob

NUM_LABELS: Final = 10
MAX_PIXEL: Final = 16

_NUM_EPOCHS: Final = 30
_BATCH_SIZE: Final = 32
_RATE: Final = 0.2
_EVAL_BATCH_SIZE: Final = 1024
# A killed training computes at most so many steps again.
_STEPS_PER_CHECKPOINT: Final = 200
_MODEL_FILE: Final = "model.npz"

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
    num_train, num_eval = (_num_samples(job, split) for split in ("train", "eval"))
    weights = _fit(job)
    _write(weights, job.output)
    guesses, labels = _guess(job, weights)
    return {
        "accuracy": float((guesses == labels).mean()),
        "accuracy_base": float(np.bincount(labels).max() / num_eval),
        "train_samples": num_train,
        "eval_samples": num_eval,
    }


def evaluate(job: TrainingJob) -> dict[str, float]:
    """Return ``accuracy`` of the model in ``job.model`` on the ``eval`` split.

    Raises:
        ConfigError: The split has no sample, or there is no model: this is no training.
    """
    _num_samples(job, "eval")
    if job.model is None:
        raise ConfigError("expected a model to evaluate, got none; train.entry is train:main")
    guesses, labels = _guess(job, _read(job.model))
    return {"accuracy": float((guesses == labels).mean())}


def predictor(folder: Path) -> Callable[[Mapping[str, NDArray[Any]]], dict[str, NDArray[Any]]]:
    """Open a model.

    Returns:
        Function of ``pixels``, shape (n, 64), that gives ``digit``, int64 of shape (n,), and its
        ``chance``, float64 of shape (n,).
    """
    weights = _read(folder)

    def predict(samples: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        logits = _images(samples) @ weights
        return {"digit": logits.argmax(axis=1), "chance": _softmax(logits).max(axis=1)}

    return predict


def complete(line: bytes) -> bytes:
    """Add a placeholder for the label to a line without one; the model never gets labels."""
    return line if b"\t" in line else line + b"\t0"


def _num_samples(job: TrainingJob, split: str) -> int:
    data = job.open(split)
    if data.num_samples == 0:
        raise ConfigError(
            f"expected samples in split {data.split!r} of {data.version}, found none;"
            " raise train.window"
        )
    return data.num_samples


def _fit(job: TrainingJob) -> Floats:
    """Return weights of shape (65, 10), by stochastic gradient descent on the log-loss.

    Goes on at the checkpoint, if there is one.
    """
    weights: Floats = np.zeros((8 * 8 + 1, NUM_LABELS))
    step = 0
    with job.loader("train", batch_size=_BATCH_SIZE) as batches:
        if (saved := job.restore()) is not None:
            weights, step = _read(saved.path), saved.step
        for epoch in range(batches.due.epoch, _NUM_EPOCHS):
            for batch in batches:
                loss = _step(weights, *_columns(batch))
                step += 1
                job.log_metrics(step, loss=loss)
                if step % _STEPS_PER_CHECKPOINT == 0:
                    job.save(step, lambda folder: _write(weights, folder))
            job.progress(epoch + 1, _NUM_EPOCHS)
    logger.info("%d steps in %d epochs", step, _NUM_EPOCHS)
    return weights


def _step(weights: Floats, images: Floats, labels: NDArray[np.int64]) -> float:
    """Change the weights along the gradient of one batch; return the mean loss before it."""
    rows = np.arange(len(labels))
    errors = _softmax(images @ weights)
    loss = -float(np.log(errors[rows, labels]).mean())
    errors[rows, labels] -= 1
    weights -= _RATE / len(labels) * (images.T @ errors)
    return loss


def _guess(job: TrainingJob, weights: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what the model says of the ``eval`` split, and what is right."""
    guesses, wanted = [], []
    with job.loader("eval", batch_size=_EVAL_BATCH_SIZE, shuffle=False) as batches:
        for batch in batches:
            images, labels = _columns(batch)
            guesses.append((images @ weights).argmax(axis=1))
            wanted.append(labels.copy())
    return np.concatenate(guesses), np.concatenate(wanted)


def _columns(batch: Mapping[str, NDArray[Any]]) -> tuple[Floats, NDArray[np.int64]]:
    return _images(batch), batch["label"]


def _images(batch: Mapping[str, NDArray[Any]]) -> Floats:
    """Return images, scaled to 0 to 1 with a constant 1 as the last column."""
    pixels = batch["pixels"] / MAX_PIXEL
    return np.hstack([pixels, np.ones((len(pixels), 1))])


def _write(weights: Floats, folder: Path) -> None:
    np.savez(folder / _MODEL_FILE, weights=weights)


def _read(folder: Path) -> Floats:
    with np.load(folder / _MODEL_FILE, allow_pickle=False) as model:
        weights: Floats = model["weights"]
    return weights


def _softmax(logits: Floats) -> Floats:
    # Shifted, so that no exponential overflows.
    exponentials: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)
