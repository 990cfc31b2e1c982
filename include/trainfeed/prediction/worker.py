"""A process that has a model and runs the code of users: preprocessing and prediction."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar, cast

from trainfeed.core.process_ties import signal_name
from trainfeed.errors import (
    CodeChangedError,
    EngineError,
    MemoryLimitError,
    PredictionError,
    PredictionTimeError,
    TrainFeedError,
)
from trainfeed.pipeline.workers.pool import Death, DeathCause, OwnWorker, WorkerLimits
from trainfeed.pipeline.workers.protocol import Desk, Job
from trainfeed.prediction.opened_model import ModelFacts, ModelPlace
from trainfeed.prediction.predictor import Arrays, Predictor
from trainfeed.prediction.records import Outcome, RawRecord
from trainfeed.training.models import ModelsFolder, hold_model
from trainfeed.versions import Version

_Result = TypeVar("_Result")

logger = logging.getLogger(__name__)

_PREDICTOR: Final = "predictor"


@dataclass(frozen=True)
class PredictionLimits:
    """The limits of a process that predicts.

    Attributes:
        time_s: Seconds for the records that are predicted at once.
        memory_bytes: Memory of the process, the model included.
        open_s: Seconds for opening a model.
    """

    time_s: float
    memory_bytes: int
    open_s: float = 300.0


@dataclass(frozen=True)
class _OpenJob:
    place: ModelPlace
    version: Path | None
    label: str = "open the model"

    def run(self, desk: Desk) -> ModelFacts:
        """Open the model, keep the predictor, and return its facts."""
        desk.functions[_PREDICTOR] = predictor = self._open()
        return predictor.facts

    def _open(self) -> Predictor:
        if self.version is None:
            return Predictor.open(self.place)
        version = Version.open(self.version)
        return Predictor.open_for_samples(self.place, version.manifest, self.version.parent.name)


@dataclass(frozen=True)
class _RecordsJob:
    records: Sequence[RawRecord]
    label: str = "predict records"

    def run(self, desk: Desk) -> list[Outcome]:
        """Return the outcome of every record."""
        return cast("Predictor", desk.functions[_PREDICTOR]).predict(self.records)


@dataclass(frozen=True)
class _SamplesJob:
    columns: Arrays
    num_samples: int
    label: str = "predict samples"

    def run(self, desk: Desk) -> list[Outcome]:
        """Return the prediction of every sample."""
        predictor = cast("Predictor", desk.functions[_PREDICTOR])
        return predictor.predict_samples(self.columns, self.num_samples)


class ModelWorker:
    """A process with an opened model; a context manager that ends the process.

    Until ``close``, retention does not remove the version. One thread at a time predicts, any
    thread may end the process.

    Args:
        place: The model.
        limits: Limits of the process.
        version: Folder of a published version, whose samples are predicted in place of records.
        on_start: Called with this object when the process was started, before the model is opened;
            ``close`` ends the opening from another thread.

    Attributes:
        facts: Description of the model.
        restarts: How often the process was replaced.

    Raises:
        TrainFeedError: The model cannot be opened; see ``Predictor.open``.
    """

    def __init__(
        self,
        place: ModelPlace,
        limits: PredictionLimits,
        version: Path | None = None,
        *,
        on_start: Callable[[ModelWorker], None] = lambda _: None,
    ) -> None:
        self._limits = limits
        self._open_job = _OpenJob(place, version)
        self.restarts = 0
        self._could_open = True
        self._starting = threading.Lock()
        self._is_closed = False
        self._worker = OwnWorker()
        self._held = ExitStack()
        try:
            on_start(self)
            folder = ModelsFolder(place.root).known(place.model)
            self._held.enter_context(hold_model(folder, place.number))
            self.facts = self._open()
        except BaseException:
            self.close()
            raise

    def predict(self, records: Sequence[RawRecord]) -> list[Outcome]:
        """Return the outcome of every record, in their order.

        Raises:
            PredictionError: The function that predicts raised, or returned no predictions.
            PredictionTimeError: The records took longer than the limit.
            MemoryLimitError: The process took more memory than its limit.
            EngineError: The process was killed, or ended by ``close``.
        """
        return self._run(_RecordsJob(records))

    def predict_samples(self, columns: Arrays, num_samples: int) -> list[Outcome]:
        """Return the prediction of every sample; see ``Predictor.predict_samples``."""
        return self._run(_SamplesJob(columns, num_samples))

    @property
    def is_able(self) -> bool:
        """Whether the process lives, and the model could be opened in it."""
        return self._could_open and self._worker.is_running

    def revive(self) -> None:
        """Replace a process that has died, without a wait for the next records.

        Raises:
            TrainFeedError: The model cannot be opened any more; see ``Predictor.open``.
        """
        if not self._worker.is_alive:
            self._replace()

    def close(self) -> None:
        """End the process for good, also while it opens or predicts; safe to call twice."""
        with self._starting:
            self._is_closed = True
        self._worker.close()
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, job: Job[_Result]) -> _Result:
        if not self._worker.is_alive:
            self._replace()
        return self._within(job, self._limits.time_s)

    def _replace(self) -> None:
        """Start another process with the same model; its code must be the same, too."""
        self._worker.close()
        with self._starting:
            if self._is_closed:
                raise EngineError(
                    f"expected to predict with {self.facts.name}, got a model that was closed; no"
                    " prediction was made; ask again when the service or the command has started"
                )
            self._worker = OwnWorker()
        self.restarts += 1
        self._could_open = False
        try:
            self._require_same(self._open())
        except BaseException:
            self._worker.close()
            raise
        self._could_open = True
        logger.warning("%s: the process that predicts was replaced", self.facts.name)

    def _require_same(self, facts: ModelFacts) -> None:
        if facts != self.facts:
            raise CodeChangedError(
                f"the files of {self.facts.name} or of data set {facts.dataset!r} changed since the"
                " model was opened; no prediction was made; start the service or the command again"
            )

    def _open(self) -> ModelFacts:
        return self._within(self._open_job, self._limits.open_s)

    def _within(self, job: Job[_Result], time_s: float) -> _Result:
        limits = WorkerLimits(time_s, self._limits.memory_bytes)
        try:
            return self._worker.run(job, limits)
        except Death as death:
            raise _explained(self._open_job.place, death, limits) from None


def _explained(place: ModelPlace, death: Death, limits: WorkerLimits) -> TrainFeedError:
    """Return the error for a process that died."""
    said = f"; it had printed:\n{death.printed}" if death.printed else ""
    name, kept = f"the code that predicts with model {place.model}", "no prediction was made"
    if death.cause is DeathCause.TIME:
        return PredictionTimeError(
            f"{name} took longer than its limit of {limits.time_s:g} s; {kept}; send fewer records"
            f" at once, correct the function, or raise the limit; it was at:\n{death.printed}"
        )
    if death.cause is DeathCause.MEMORY:
        return MemoryLimitError(
            f"{name} took {death.detail} bytes of memory, expected at most {limits.memory_bytes};"
            f" {kept}; send fewer records at once, correct the function, or raise"
            " resources.worker_memory_bytes in dataset.yaml"
        )
    if death.cause is DeathCause.SIGNAL:
        want = " for want of memory" if death.for_want_of_memory else ""
        return EngineError(
            f"{name} was ended by {signal_name(death.detail)}{want}; {kept}; try again{said}"
        )
    return PredictionError(
        f"{name} ended its process with status {death.detail}; {kept}; the code of a data set must"
        f" not end its process{said}"
    )
