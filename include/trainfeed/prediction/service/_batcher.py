"""Micro-batching: requests that wait together are predicted together, within bounds.

While a batch is in work, further requests wait; they are the next batch. Only an idle model waits a
moment for company. The queue is bounded in records: a request beyond it is refused at once, so that
the time until an answer stays bounded too.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from trainfeed.prediction._opened_model import ModelFacts
from trainfeed.prediction._record_outcome import Outcome
from trainfeed.prediction._records import RawRecord
from trainfeed.server import Metrics, Portions, Refusal

__all__ = ["Answer", "BatchBounds", "Batcher", "Engine"]

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
