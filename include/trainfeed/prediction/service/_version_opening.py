"""Opens versions of a model beside the event loop, and can end what is being opened.

A version takes up to minutes to open. The loop cannot cancel the thread that waits for that, so the
thread is not one of the loop's own, for which a loop waits at its end without a limit; and the
process that opens has an owner from its start on.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from trainfeed.prediction._model_worker import ModelWorker, PredictionLimits
from trainfeed.prediction._opened_model import ModelPlace

__all__ = ["VersionOpening"]


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
