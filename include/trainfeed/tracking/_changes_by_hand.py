"""Delivery of changes that a person has made outside of a training: of ``prod``, or of a job's end.

The data set names the server: that of the job, or the one whose training made the newest version of
the model. Nothing here raises an error, because the change is made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from trainfeed.config import Environment
from trainfeed.errors import TrainFeedError
from trainfeed.jobs import JobRecord, JobSpec
from trainfeed.models import ModelFolder, spec_of_model
from trainfeed.specification import SPEC_FILE, DatasetSpec, load_spec
from trainfeed.tracking._tracker import Tracker

__all__ = ["deliver_cancellation", "deliver_change"]

logger = logging.getLogger(__name__)

EnvironmentWith: TypeAlias = Callable[[str], Environment]


def deliver_change(
    folder: ModelFolder, datasets: Path, env_with: EnvironmentWith
) -> dict[str, str]:
    """Deliver the aliases of a model after a change.

    Args:
        folder: The model.
        datasets: Folder of the data sets.
        env_with: Returns an environment with the settings of the tracking server of a connection.

    Returns:
        ``{"mlflow": …}``: ``delivered`` or the reason why not; empty if no server is known: the
        data set has none, is not here, or cannot be read, which is a warning in the log.
    """
    what = f"model {folder.name}"
    return _delivered(
        what,
        lambda: spec_of_model(folder, datasets),
        env_with,
        lambda tracker: tracker.model(folder),
    )


def deliver_cancellation(
    record: JobRecord, job: JobSpec, datasets: Path, env_with: EnvironmentWith
) -> dict[str, str]:
    """Deliver that a job was cancelled, as status KILLED.

    Args:
        record: The job's folder.
        job: The job.
        datasets: Folder of the data sets.
        env_with: Returns an environment with the settings of the tracking server of a connection.

    Returns:
        As ``deliver_change``.
    """
    home = datasets / job.dataset
    return _delivered(
        f"job {job.name}",
        lambda: load_spec(home) if (home / SPEC_FILE).is_file() else None,
        env_with,
        lambda tracker: tracker.job(record, job, "KILLED"),
    )


def _delivered(
    what: str,
    find_spec: Callable[[], DatasetSpec | None],
    env_with: EnvironmentWith,
    deliver: Callable[[Tracker], dict[str, str]],
) -> dict[str, str]:
    try:
        spec = find_spec()
    except TrainFeedError as error:
        logger.warning("the tracking server of %s is not known: %s", what, error)
        return {}
    if spec is None or spec.train is None or spec.train.tracking.mlflow is None:
        return {}
    try:
        tracker = Tracker.of(spec, env_with(spec.train.tracking.mlflow))
    except TrainFeedError as error:
        logger.warning("the change of %s was not delivered: %s", what, error)
        return {"mlflow": f"not delivered: {error}"}
    return {} if tracker is None else deliver(tracker)
