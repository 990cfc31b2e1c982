"""Follows an alias: loads the version that it points to beside the one in use, then exchanges them.

A version that cannot be loaded leaves the one in use where it is, and is named in ``/v1/model`` and
in the metrics. It is tried again after a while, because the cause may have passed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from trainfeed.errors import TrainFeedError
from trainfeed.models import ChosenModel, model_version
from trainfeed.prediction.service._batcher import Batcher, Engine
from trainfeed.server import Metrics

__all__ = ["AliasWatch", "RefusedVersion"]

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
            wanted = await asyncio.to_thread(self._chosen.now)
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
