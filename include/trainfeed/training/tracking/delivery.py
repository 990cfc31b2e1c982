"""Delivery to a tracking server: bounded in time, never an error of the training, never silent."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeAlias

from trainfeed.core.config import Environment
from trainfeed.errors import TrainFeedError
from trainfeed.serving.server import HttpSettings
from trainfeed.specification import SPEC_FILE, DatasetSpec, load_spec
from trainfeed.training.jobs import JobRecord, JobSpec
from trainfeed.training.models import ModelFolder, spec_of_model
from trainfeed.training.tracking.mlflow import MlflowRun, mirror_model, tracker_settings

# --- Delivery to a tracking server: bounded in time, never an error of the training, never silent

logger = logging.getLogger(__name__)

# Time beyond the limit of the requests, for what no limit holds: the search for a host's address.
_GRACE_S: Final = 2.0


@dataclass(frozen=True)
class Tracker:
    """Delivers jobs and models of a data set to its MLflow server.

    Each method returns ``{"mlflow": …}``: ``delivered``, or the reason why not. None of them raises
    an error or takes longer than ``timeout_s`` of the settings and two seconds.

    Attributes:
        settings: The server.
        experiment: Name of the experiment.
    """

    settings: HttpSettings
    experiment: str

    @classmethod
    def of(cls, spec: DatasetSpec, env: Environment) -> Self | None:
        """Return the tracker that a specification asks for, or None.

        Raises:
            ConfigError: The server has no settings here, or wrong ones.
        """
        if spec.train is None or spec.train.tracking.mlflow is None:
            return None
        tracking = spec.train.tracking
        settings = tracker_settings(env.trackers, spec.train.tracking.mlflow)
        return cls(settings, tracking.experiment or spec.name)

    def job(self, record: JobRecord, job: JobSpec, status: str) -> dict[str, str]:
        """Deliver the run of a job.

        Args:
            record: The job's folder.
            job: The job.
            status: Status of the run: RUNNING, FINISHED, FAILED or KILLED.
        """
        run = self._run_of(record)
        return self._bounded(f"job {job.name}, {status}", lambda: run.deliver(job, status))

    def model(self, folder: ModelFolder) -> dict[str, str]:
        """Deliver the versions of a model that have an alias, and its aliases."""
        return self._bounded(
            f"model {folder.name}", lambda: mirror_model(self.settings, self.experiment, folder)
        )

    def _run_of(self, record: JobRecord) -> MlflowRun:
        return MlflowRun(self.settings, self.experiment, record)

    def _bounded(self, what: str, deliver: Callable[[], object]) -> dict[str, str]:
        limit_s = self.settings.timeout_s + _GRACE_S
        outcome = [f"no end within {limit_s:g} s"]

        def work() -> None:
            try:
                deliver()
                outcome[0] = ""
            except Exception as error:  # noqa: BLE001 - a tracking server must not fail a training
                outcome[0] = f"{type(error).__name__}: {error}"

        thread = threading.Thread(target=work, name="trainfeed-tracking", daemon=True)
        thread.start()
        thread.join(limit_s)
        if not (reason := outcome[0]):
            return {"mlflow": "delivered"}
        logger.warning(
            "%s was not delivered to %s: %s; all of it is kept: the next task of the run delivers"
            " it, or the same command or task once more",
            what,
            self.settings.url,
            reason,
        )
        return {"mlflow": f"not delivered: {reason}"}


# --- Delivery of changes that a person has made outside of a training: of ``prod``

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
