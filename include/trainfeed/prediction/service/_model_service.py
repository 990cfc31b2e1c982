"""The service of one model: opened before the first request, followed by alias, ended cleanly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import FastAPI

from trainfeed.errors import TrainFeedError
from trainfeed.models import ChosenModel
from trainfeed.prediction._model_worker import ModelWorker, PredictionLimits
from trainfeed.prediction._opened_model import ModelPlace
from trainfeed.prediction.service._alias_watch import AliasWatch
from trainfeed.prediction.service._batcher import BatchBounds, Batcher
from trainfeed.prediction.service._routes import SCOPES, make_routes
from trainfeed.prediction.service._version_opening import VersionOpening
from trainfeed.server import Metrics, Parts, ServerSettings, make_app, serve

__all__ = ["ServiceSettings", "serve_model"]

logger = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
_AGAIN_S: Final = 10.0


@dataclass(frozen=True)
class ServiceSettings:
    """The settings of a service of predictions.

    Attributes:
        server: Address, files and limits.
        limits: Limits of the process that predicts.
        bounds: Bounds of batches and of the queue.
        watch_s: Seconds from one look at the alias to the next.
    """

    server: ServerSettings
    limits: PredictionLimits
    bounds: BatchBounds = field(default_factory=BatchBounds)
    watch_s: float = 2.0


def serve_model(
    chosen: ChosenModel,
    place: ModelPlace,
    settings: ServiceSettings,
    on_ready: Callable[[str], None],
) -> None:
    """Answer requests for predictions until SIGTERM or SIGINT.

    Args:
        chosen: The model; if an alias was named, the service follows the alias.
        place: The version of today, which is opened before the first request.
        settings: See ``ServiceSettings``.
        on_ready: Called with the address once the service answers.

    Raises:
        TrainFeedError: The model cannot be opened; see ``Predictor.open``.
        ConfigError: A setting of the server is wrong; see ``trainfeed.server.serve``.
        StorageError: A file of the server cannot be written.
    """
    with ModelWorker(place, settings.limits) as worker:
        for warning in worker.facts.warnings():
            logger.warning(warning)
        serve(_app(chosen, place, worker, settings), settings.server, on_ready=on_ready)


def _app(
    chosen: ChosenModel, place: ModelPlace, worker: ModelWorker, settings: ServiceSettings
) -> FastAPI:
    metrics = Metrics()
    batcher = Batcher(worker, settings.bounds, metrics)

    parts = Parts()
    parts.add("model", lambda: batcher.is_able)
    opening = VersionOpening(place, settings.limits)
    watch = AliasWatch(chosen, opening.open, batcher, metrics, every_s=settings.watch_s)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        predicting = parts.start("batches", batcher.run())
        reviving = parts.start("process", _revive(batcher))
        # A service of a version that was named by its number follows nothing.
        watching = parts.start("alias", watch.run()) if chosen.alias is not None else None
        try:
            yield
        finally:
            # The watch ends first: the batcher closes the engine that it has at its own end.
            await _ended(reviving)
            if watching is not None:
                await _ended(watching)
            opening.close()
            await _ended(predicting)

    def told() -> dict[str, Any]:
        return watch.to_json()

    return make_app(
        make_routes(batcher, told, settings.bounds.records),
        settings.server,
        scopes=SCOPES,
        metrics=metrics,
        lifespan=running,
        parts=parts,
    )


async def _revive(batcher: Batcher) -> None:
    """Replace a process that died while nobody asked: callers may stay away from a sick service."""
    while True:
        await asyncio.sleep(_LOOK_S)
        if batcher.is_able:
            continue
        try:
            await batcher.revive()
        except TrainFeedError as error:
            logger.error("the process that predicts was not replaced: %s", error)  # noqa: TRY400
            await asyncio.sleep(_AGAIN_S)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    # Its own error, if it ended before, is in the log.
    with suppress(asyncio.CancelledError, Exception):
        await task
