"""Delivery of a change of ``prod`` that a person has made: outside a training, by a model's name.

The data set whose training made the newest version of the model names the server.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from trainfeed.config import Environment
from trainfeed.errors import TrainFeedError
from trainfeed.models import ModelFolder, spec_of_model
from trainfeed.tracking._tracker import Tracker

__all__ = ["deliver_change"]

logger = logging.getLogger(__name__)


def deliver_change(
    folder: ModelFolder, datasets: Path, env_with: Callable[[str], Environment]
) -> dict[str, str]:
    """Deliver the aliases of a model after a change; never an error, because the change is made.

    Args:
        folder: The model.
        datasets: Folder of the data sets.
        env_with: Returns an environment with the settings of the tracking server of a connection.

    Returns:
        ``{"mlflow": …}``: ``delivered`` or the reason why not; empty if no server is known: the
        data set has none, is not here, or cannot be read, which is a warning in the log.
    """
    try:
        spec = spec_of_model(folder, datasets)
    except TrainFeedError as error:
        logger.warning("the tracking server of model %s is not known: %s", folder.name, error)
        return {}
    if spec is None or spec.train is None or spec.train.tracking.mlflow is None:
        return {}
    try:
        tracker = Tracker.of(spec, env_with(spec.train.tracking.mlflow))
    except TrainFeedError as error:
        logger.warning("the aliases of model %s were not delivered: %s", folder.name, error)
        return {"mlflow": f"not delivered: {error}"}
    return {} if tracker is None else tracker.model(folder)
