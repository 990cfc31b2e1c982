"""The verdict of the gate of ``train.model`` on a job, with a comparison to the promoted model."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainfeed.errors import GateError
from trainfeed.jobs import JobRecord
from trainfeed.models import (
    DAMAGED,
    PROD,
    Candidate,
    Compared,
    GateReport,
    Model,
    ModelFolder,
    current,
    current_version,
    data_digest,
    judge,
)
from trainfeed.specification import DatasetSpec, ModelSpec
from trainfeed.training.promotion._evaluation import evaluate_model

__all__ = ["Judgement", "closed"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Judgement:
    """A candidate that the gate is to judge.

    Attributes:
        spec: The data set.
        model: The data set's ``train.model``.
        record: The job's folder.
        candidate: The output of the job.
        folder: The model.
    """

    spec: DatasetSpec
    model: ModelSpec
    record: JobRecord
    candidate: Candidate
    folder: ModelFolder

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the training and of ``train.model.evaluate``, if there is one."""
        return {**self.candidate.metrics, **self._evaluated(self.candidate.output)}

    def report(self, metrics: Mapping[str, float]) -> GateReport:
        """Compare ``metrics`` with the limits and with the promoted model."""
        return judge(self.model, metrics, self._compared())

    def _compared(self) -> Compared:
        version = current_version(self.folder, PROD)
        if version is None:
            return Compared(None, None, "not compared: there is no promoted model")
        try:
            promoted = self._promoted()
        except DAMAGED as error:
            logger.warning("%s/%s is damaged: %s", self.folder.name, version, error)
            return Compared(version, None, f"not compared: {version} is damaged: {error}")
        if self.model.evaluate is not None:
            metrics = self._evaluated(promoted.path)
            return Compared(version, metrics, f"{version} was evaluated on the same data")
        if promoted.manifest.data_digest == data_digest(self.candidate.data):
            note = f"{version} was trained on the same data"
            return Compared(version, promoted.manifest.metrics, note)
        note = f"not compared: {version} was trained on other data, train.model has no evaluate"
        return Compared(version, None, note)

    def _promoted(self) -> Model:
        """Return the promoted model, verified as far as the comparison reads it."""
        promoted = current(self.folder, PROD)
        assert promoted is not None  # noqa: S101 - the alias has a version
        if self.model.evaluate is not None:
            promoted.verify()
        return promoted

    def _evaluated(self, model: Path) -> dict[str, float]:
        entry = self.model.evaluate
        if entry is None:
            return {}
        return evaluate_model(self.spec, self.folder.models.parent, self.record, model, entry)


def closed(job: str, model: str, report: GateReport) -> GateError:
    """Return the error for a job that does not pass the gate."""
    return GateError(
        f"job {job} does not pass the gate of model {model}: {'; '.join(report.reasons())}"
        f" ({report.compared.note}); no version was made and prod is unchanged; look at the data of"
        " the job, or change train.model in dataset.yaml and clear the task",
        report={"gate": report.to_json()},
    )
