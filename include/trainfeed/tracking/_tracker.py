"""Delivery to a tracking server: bounded in time, never an error of the training, never silent.

Every delivery brings the server to the state of the files here, so the next one makes up for one
that failed: the next task of the run, or the same command or task once more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from trainfeed.config import Environment
from trainfeed.jobs import JobRecord, JobSpec
from trainfeed.models import ModelFolder
from trainfeed.specification import DatasetSpec
from trainfeed.tracking._mlflow_model import mirror_model
from trainfeed.tracking._mlflow_run import MlflowRun
from trainfeed.tracking._mlflow_settings import MlflowSettings

__all__ = ["Tracker"]

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

    settings: MlflowSettings
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
        settings = MlflowSettings.of(env.trackers, spec.train.tracking.mlflow)
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
