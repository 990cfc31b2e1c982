"""Micro-batching of requests, and the exchange of the model when its alias moves."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Protocol

from trainfeed.errors import TrainFeedError
from trainfeed.prediction.opened_model import ModelFacts, ModelPlace
from trainfeed.prediction.records import Outcome, RawRecord
from trainfeed.prediction.worker import ModelWorker, PredictionLimits
from trainfeed.serving.server import Metrics, Portions, Refusal
from trainfeed.training.models import ChosenModel, model_version

# --- Micro-batching: requests that wait together are predicted together, within bounds

_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# Weight of the last batch in the mean time of a record, from which the wished wait follows.
_WEIGHT: Final = 0.2
# The last requests, of which the metrics have percentiles.
_LATENCIES: Final = 2048


class Engine(Protocol):
    """A model that predicts; one thread at a time uses it."""

    @property
    def facts(self) -> ModelFacts:
        """Description of the model."""

    def predict(self, records: Sequence[RawRecord]) -> list[Outcome]:
        """Return the outcome of every record."""

    @property
    def is_able(self) -> bool:
        """Whether the engine can predict, as far as is known."""

    def revive(self) -> None:
        """Make an engine that is not able so again, or raise."""

    def close(self) -> None:
        """End the model's process."""


@dataclass(frozen=True)
class BatchBounds:
    """The bounds of batches and of the queue.

    Attributes:
        records: Most records of a batch, and of one request.
        delay_s: Longest time that a request waits for company while the model is idle.
        queue: Most records that wait, of which one caller gets half.
    """

    records: int = 256
    delay_s: float = 0.002
    queue: int = 2048


@dataclass(frozen=True)
class Answer:
    """The outcomes of one request, and the model that made them."""

    facts: ModelFacts
    outcomes: list[Outcome]


@dataclass
class _Waiting:
    who: str
    records: Sequence[RawRecord]
    answer: asyncio.Future[Answer]
    since: float = field(default_factory=time.monotonic)


class Batcher:
    """Predicts for many requests with one engine, which can be exchanged between batches.

    All methods are for the event loop that ``run`` runs in.

    Args:
        engine: The model; the batcher closes it at its end.
        bounds: Bounds of batches and of the queue.
        metrics: Gets sizes of batches, waiting times and the length of the queue.
    """

    def __init__(self, engine: Engine, bounds: BatchBounds, metrics: Metrics) -> None:
        self._engine = engine
        self._bounds = bounds
        self._metrics = metrics
        self._queue: deque[_Waiting] = deque()
        self._waiting = Portions(bounds.queue)
        self._is_over = False
        self._arrived = asyncio.Event()
        self._turn = asyncio.Lock()
        self._record_s = 0.001
        self._latencies: deque[float] = deque(maxlen=_LATENCIES)
        # One thread, because an engine is for one thread at a time.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="trainfeed-predict")
        _declare(metrics, lambda: self._waiting.num_taken)
        for percent in (50, 99):
            about = f"Percentile {percent} of the time from a request to its outcomes, lately."
            read = partial(self._percentile, percent)
            metrics.gauge(f"prediction_p{percent}_seconds", about, read)

    @property
    def facts(self) -> ModelFacts:
        """Description of the model that the next batch gets."""
        return self._engine.facts

    @property
    def is_able(self) -> bool:
        """Whether predictions are possible, as far as is known."""
        return self._engine.is_able

    async def predict(self, records: Sequence[RawRecord], who: str) -> Answer:
        """Return the outcomes of the records of one request.

        Args:
            records: The records.
            who: Name of the caller, whose share of the queue counts.

        Raises:
            Refusal: 503, the queue is full, or the caller has its share of it, or no batch is
                predicted any more.
            TrainFeedError: The error of the engine for these records.
        """
        if self._is_over:
            raise _over()
        if len(records) > self._bounds.queue or not self._waiting.take(who, len(records)):
            self._metrics.count("prediction_refused_total")
            raise self._full()
        waiting = _Waiting(who, records, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._arrived.set()
        return await waiting.answer

    async def exchange(self, engine: Engine) -> None:
        """Give all batches from the next one on to another engine, and close the one before.

        If the task is cancelled before that, the other engine is closed.
        """
        unused = engine
        try:
            async with self._turn:
                unused, self._engine = self._engine, engine
        finally:
            await asyncio.to_thread(unused.close)

    async def revive(self) -> None:
        """Replace the process of an engine that has died, between two batches.

        Raises:
            TrainFeedError: The model cannot be opened any more.
        """
        async with self._turn:
            if not self._engine.is_able:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._thread, self._engine.revive)

    async def run(self) -> None:
        """Predict until the task is cancelled; then close the engine."""
        try:
            while True:
                await self._arrived.wait()
                if self._waiting.num_taken < self._bounds.records:
                    await asyncio.sleep(self._bounds.delay_s)
                while batch := self._next_batch():
                    async with self._turn:
                        await self._answer(batch)
                self._arrived.clear()
        finally:
            self._is_over = True
            for waiting in self._queue:
                if not waiting.answer.done():
                    waiting.answer.set_exception(_over())
            self._engine.close()
            self._thread.shutdown(wait=False)

    def _next_batch(self) -> list[_Waiting]:
        """Take the next requests that wait; those that nobody waits for any more are dropped."""
        batch: list[_Waiting] = []
        size = 0
        while self._queue and size + len(self._queue[0].records) <= self._bounds.records:
            waiting = self._queue.popleft()
            self._waiting.give(waiting.who, len(waiting.records))
            if not waiting.answer.done():
                batch.append(waiting)
                size += len(waiting.records)
        return batch

    async def _answer(self, batch: list[_Waiting]) -> None:
        started = time.monotonic()
        for waiting in batch:
            self._metrics.observe("prediction_wait_seconds", started - waiting.since)
        records = [record for waiting in batch for record in waiting.records]
        self._metrics.observe("prediction_batch_records", len(records))
        try:
            outcomes = await self._predicted(records)
        except Exception as error:  # noqa: BLE001 - a batch fails, the next ones go on
            self._metrics.count("prediction_failures_total")
            if len(batch) > 1:
                # One request may be the cause: each is predicted alone, so that the others succeed.
                for waiting in batch:
                    if not waiting.answer.done():
                        await self._answer([waiting])
            elif not batch[0].answer.done():
                batch[0].answer.set_exception(error)
            return
        mean_s = (time.monotonic() - started) / len(records)
        self._record_s += _WEIGHT * (mean_s - self._record_s)
        self._hand_out(batch, outcomes)

    async def _predicted(self, records: list[RawRecord]) -> list[Outcome]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._engine.predict, records)

    def _hand_out(self, batch: list[_Waiting], outcomes: list[Outcome]) -> None:
        start, now = 0, time.monotonic()
        for waiting in batch:
            self._latencies.append(now - waiting.since)
            end = start + len(waiting.records)
            if not waiting.answer.done():
                waiting.answer.set_result(Answer(self._engine.facts, outcomes[start:end]))
            start = end
        self._metrics.count("predictions_total", len(outcomes))

    def _percentile(self, percent: int) -> float:
        latencies = sorted(self._latencies)
        return latencies[(len(latencies) - 1) * percent // 100] if latencies else 0.0

    def _full(self) -> Refusal:
        num_waiting = self._waiting.num_taken
        seconds = num_waiting * self._record_s
        return Refusal(
            503,
            "QueueFull",
            expected=f"at most {self._bounds.queue} records that wait, half of them of one caller",
            got=f"{num_waiting} that wait already",
            remedy="wait as Retry-After says; nothing of the request was predicted",
            retry_after=math.ceil(seconds),
        )


def _over() -> Refusal:
    return Refusal(
        503,
        "NoPredictions",
        expected="a service that predicts batches",
        got="one whose batches have ended",
        remedy="try again; if it stays so, the service has to be started again",
        retry_after=1,
    )


def _declare(metrics: Metrics, num_waiting: Callable[[], int]) -> None:
    metrics.counter("predictions_total", "Records that have an outcome.")
    metrics.counter("prediction_failures_total", "Batches that failed as a whole.")
    metrics.counter("prediction_refused_total", "Requests refused because the queue is full.")
    metrics.gauge("prediction_queue_records", "Records that wait.", num_waiting)
    metrics.histogram("prediction_batch_records", "Records of a batch.", _SIZES)
    metrics.histogram("prediction_wait_seconds", "Time that a request waits for its batch.")


# --- Opens versions of a model beside the event loop, and can end what is being opened


class VersionOpening:
    """Opens versions of one model, one after the other.

    Args:
        place: The model; the number in it is replaced.
        limits: Limits of each process.
    """

    def __init__(self, place: ModelPlace, limits: PredictionLimits) -> None:
        self._place = place
        self._limits = limits
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="trainfeed-open")
        self._lock = threading.Lock()
        self._worker: ModelWorker | None = None
        self._is_closed = False

    async def open(self, number: int) -> ModelWorker:
        """Open a version; the caller closes it. After a cancellation it is closed here.

        Raises:
            TrainFeedError: The version cannot be opened; see ``Predictor.open``.
        """
        opened = self._thread.submit(self._opened, number)
        try:
            return await asyncio.wrap_future(opened)
        except asyncio.CancelledError:
            opened.add_done_callback(_close)
            raise

    def close(self) -> None:
        """End the process that opens a version, if there is one; no other version is opened."""
        with self._lock:
            self._is_closed = True
            if self._worker is not None:
                self._worker.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _opened(self, number: int) -> ModelWorker:
        place = replace(self._place, number=number)
        try:
            return ModelWorker(place, self._limits, on_start=self._keep)
        finally:
            with self._lock:
                self._worker = None

    def _keep(self, worker: ModelWorker) -> None:
        with self._lock:
            self._worker = worker
            if self._is_closed:
                worker.close()


def _close(opened: Future[ModelWorker]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()


# --- Follows an alias: loads the version that it points to beside the one in use

logger = logging.getLogger(__name__)

Load = Callable[[int], Awaitable[Engine]]


@dataclass(frozen=True)
class RefusedVersion:
    """A version that the alias points to, and that could not be loaded.

    Attributes:
        version: The version; None if the alias itself could not be read.
        error: Class of the error.
        message: The error, for people.
        at: Time of the last try, ISO 8601 in UTC.
    """

    version: str | None
    error: str
    message: str
    at: str


class AliasWatch:
    """Keeps the model of a batcher the one that the alias points to.

    Args:
        chosen: The model; a version that was named by its number is never exchanged.
        load: Opens a version by its number, in a process of its own.
        batcher: Gets the opened versions.
        metrics: Gets the number of exchanges and of versions that could not be loaded.
        every_s: Seconds from one look at the alias to the next.
        again_s: Seconds after which a version that could not be loaded is tried again.

    Attributes:
        refused: The version that could not be loaded; None if the alias and the model agree.
    """

    def __init__(
        self,
        chosen: ChosenModel,
        load: Load,
        batcher: Batcher,
        metrics: Metrics,
        *,
        every_s: float,
        again_s: float = 60.0,
    ) -> None:
        self._chosen = chosen
        self._load = load
        self._batcher = batcher
        self._metrics = metrics
        self._every_s = every_s
        self._again_s = again_s
        self._tried_at = 0.0
        self.refused: RefusedVersion | None = None
        metrics.counter("model_exchanges_total", "Versions of the model that came into use.")
        metrics.counter("model_refusals_total", "Tries to load a version that failed.")
        metrics.gauge(
            "model_refused",
            "1 while a version that the alias points to cannot be loaded.",
            lambda: int(self.refused is not None),
        )

    async def run(self) -> None:
        """Look at the alias until the task is cancelled."""
        while self._chosen.alias is not None:
            await asyncio.sleep(self._every_s)
            await self.look()

    async def look(self) -> None:
        """Look at the alias once, and exchange the model if the alias points to another version."""
        wanted: int | None = None
        try:
            wanted = await asyncio.to_thread(self._chosen.resolve)
            name = model_version(wanted)
            if name == self._batcher.facts.version:
                self.refused = None
            elif self._is_due(name):
                await self._exchange(wanted)
        except TrainFeedError as error:
            self._refuse(None if wanted is None else model_version(wanted), error)
        except Exception as error:
            logger.exception("the alias could not be followed")
            self._refuse(None if wanted is None else model_version(wanted), error)

    def _is_due(self, version: str) -> bool:
        is_other = self.refused is None or self.refused.version != version
        return is_other or time.monotonic() - self._tried_at >= self._again_s

    async def _exchange(self, number: int) -> None:
        self._tried_at = time.monotonic()
        engine = await self._load(number)
        before = self._batcher.facts.name
        await self._batcher.exchange(engine)
        self.refused = None
        self._metrics.count("model_exchanges_total")
        logger.warning("%s is in use now, after %s", engine.facts.name, before)

    def _refuse(self, version: str | None, error: Exception) -> None:
        self._metrics.count("model_refusals_total")
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self.refused = RefusedVersion(version, type(error).__name__, str(error), at)
        logger.error("%s stays in use: %s", self._batcher.facts.name, error)

    def to_json(self) -> dict[str, Any]:
        """Return the alias and the refused version, as JSON values."""
        refused = None if self.refused is None else asdict(self.refused)
        return {"alias": self._chosen.alias, "refused": refused}
