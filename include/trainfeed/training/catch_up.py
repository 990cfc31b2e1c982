"""Finds the published versions that no training has seen, and trains on them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, TrainingMarks, Untrained, require_writable_root
from trainfeed.errors import ConfigError, WindowError, WindowIncompleteError
from trainfeed.specification import DatasetSpec
from trainfeed.training.launch import train

__all__ = ["missed", "train_missed"]

logger = logging.getLogger(__name__)


def missed(spec: DatasetSpec, marks: TrainingMarks, *, older: bool) -> list[Untrained]:
    """Return the published versions that no training has seen, and that one could read.

    Args:
        spec: The data set; intervals that its schedule no longer has are left out, with a warning.
        marks: The marks of the data set.
        older: Whether to include versions from before the data set had a training, and declined
            ones.
    """
    return [each for each in marks.untrained(older=older) if _is_tick(spec, each.interval)]


def train_missed(spec: DatasetSpec, env: Environment, *, older: bool) -> Iterator[dict[str, Any]]:
    """Train on the published intervals that no training has seen, one after the other.

    Args:
        spec: The data set.
        env: The environment.
        older: Whether to include versions from before the data set had a training, and declined
            ones.

    Yields:
        For each interval ``interval`` and the report of ``train``; or, if versions of its window
        are missing, ``interval``, the verdict ``incomplete`` and ``note``. Such an interval stays
        untrained.

    Raises:
        ConfigError: The data set has no training.
        RootError: The publication root was not made by ``trainfeed init``.
        JobFailedError: A job failed. Its interval counts as seen, later ones stay untrained.
        GateError: A metric is below ``train.min``; intervals as for a failed job.
    """
    if spec.train is None:
        raise ConfigError(f"data set {spec.name!r} has no training; add 'train' to dataset.yaml")
    require_writable_root(env)
    schedule = spec.schedule_model()
    marks = TrainingMarks(DatasetFolder(Path(env.root), spec.name))
    for version in missed(spec, marks, older=older):
        try:
            report = train(spec, env, schedule.interval_named(version.interval))
        except WindowIncompleteError as error:
            logger.warning("%s", error)
            report = {"verdict": "incomplete", "note": str(error)}
        yield {"interval": version.interval, **report}


def _is_tick(spec: DatasetSpec, interval: str) -> bool:
    try:
        spec.schedule_model().interval_named(interval)
    except WindowError as error:
        logger.warning("%s/%s cannot be trained on: %s", spec.name, interval, error)
        return False
    return True
