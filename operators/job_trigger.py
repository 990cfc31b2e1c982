"""The wait for a job on a cluster, without a worker: the triggerer asks every few seconds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from trainfeed.errors import Outcome, TrainFeedError

if TYPE_CHECKING:
    from trainfeed.training.kept_jobs import KeptJob


logger = logging.getLogger(__name__)

_POLL_S: Final = 5.0
# After this time the task itself asks: a changed connection takes effect only there.
_LONGEST_WAIT_S: Final = 3600.0


class TrainingJobTrigger(BaseTrigger):
    """Fires when a job has ended, when its state cannot be read, or after an hour.

    The trigger decides nothing: the task looks again, and reports the end of the job. A person
    cancels the job by clearing or marking the waiting task; a triggerer that goes down does not.

    Args:
        root: The publication root.
        home: The job's folder.
        clusters: Settings of the cluster, by connection id: names and paths, no credentials.
        launch: Values that the event gives back to the task: ``verdict`` of the launch, and
            ``since``, its time in seconds since 1970.
        poll_s: Seconds between two looks at the job.
        longest_s: Seconds after which the trigger fires although the job still runs.
    """

    def __init__(
        self,
        *,
        root: str,
        home: str,
        clusters: Mapping[str, Mapping[str, Any]],
        launch: Mapping[str, Any],
        poll_s: float = _POLL_S,
        longest_s: float = _LONGEST_WAIT_S,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.root = root
        self.home = home
        self.clusters = clusters
        self.launch = launch
        self.poll_s = poll_s
        self.longest_s = longest_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class and arguments, which Airflow's database keeps."""
        names = ("root", "home", "clusters", "launch", "poll_s", "longest_s")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, when the task should look at the job."""
        ends_s = time.monotonic() + self.longest_s
        while await asyncio.to_thread(self._is_live):
            left_s = ends_s - time.monotonic()
            if left_s <= 0:
                break
            await asyncio.sleep(min(self.poll_s, left_s))
        yield TriggerEvent({**self.launch, "home": self.home})  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """Cancel the job: a person has cleared or marked the task that waits for it."""
        await asyncio.to_thread(self._cancel)

    def _is_live(self) -> bool:
        try:
            return self._job().look(self.clusters).state.is_live
        except TrainFeedError as error:
            if error.outcome is Outcome.RETRY:
                logger.warning("%s; looking again in %.0f s", error, self.poll_s)
            return error.outcome is Outcome.RETRY

    def _cancel(self) -> None:
        try:
            self._job().cancel(self.clusters)
        except TrainFeedError as error:
            logger.error("the job in %s goes on, it could not be cancelled: %s", self.home, error)  # noqa: TRY400

    def _job(self) -> KeptJob:
        from trainfeed.training.kept_jobs import kept_job

        return kept_job(Path(self.root), Path(self.home))
