"""Delivery of a change of ``prod`` that a person has made: outside a training, by a model's name.

The data set whose training made the newest version of the model names the server.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from trainfeed.config import Environment
from trainfeed.errors import TrainFeedError
from trainfeed.models import Model, ModelFolder
from trainfeed.specification import SPEC_FILE, DatasetSpec, load_spec
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
        ``{"mlflow": …}``: ``delivered`` or the reason why not; empty if the data set has no server,
        or is not here.
    """
    try:
        spec = _spec_of(folder, datasets)
        if spec is None or spec.train is None or spec.train.tracking.mlflow is None:
            return {}
        tracker = Tracker.of(spec, env_with(spec.train.tracking.mlflow))
    except TrainFeedError as error:
        logger.warning("the aliases of model %s were not delivered: %s", folder.name, error)
        return {"mlflow": f"not delivered: {error}"}
    return {} if tracker is None else tracker.model(folder)


def _spec_of(folder: ModelFolder, datasets: Path) -> DatasetSpec | None:
    newest = Model.open(folder, folder.versions()[-1])
    home = datasets / newest.manifest.job.dataset
    return load_spec(home) if (home / SPEC_FILE).is_file() else None
