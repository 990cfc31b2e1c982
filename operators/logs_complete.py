"""Folder of log files → go: waits until the folder of an interval is complete."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from operators._outcome import airflow_outcome, call_again
from operators._stage import open_dataset
from operators._window import run_interval, window_request
from trainfeed.errors import Outcome, StorageError, TrainFeedError, WindowOpenError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.config import Environment
    from trainfeed.spec import DatasetSpec
    from trainfeed.window import Interval

__all__ = ["LogsCompleteSensor", "LogsCompleteTrigger"]

logger = logging.getLogger(__name__)

_POLL_S: Final = 60.0
_LONGEST_WAIT_S: Final = 3600.0


class LogsCompleteSensor(BaseOperator):
    """Wait until the folder of the interval that the run is for is complete.

    In runs of the schedule and of backfills it waits without holding a worker slot: in the
    triggerer, or, where there is none, by being called again. The wait has no end and counts for
    no time limit: a folder may come days late. In triggered runs it fails, because a person is
    waiting.

    Args:
        dataset: Name of the data set.
        deferrable: Whether the triggerer waits.
        poll_s: How often the folder is looked at.

    Returns:
        How many log files the folder has.
    """

    def __init__(
        self, *, dataset: str, deferrable: bool = True, poll_s: float = _POLL_S, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.deferrable = deferrable
        self.poll_s = poll_s

    def execute(self, context: Context, event: dict[str, Any] | None = None) -> int:
        """Look at the folder, and wait when it is not complete.

        Args:
            context: The task's context.
            event: What the trigger saw; None in the first call.
        """
        from trainfeed.build.logs_complete import require_complete

        request = window_request(context)
        with airflow_outcome(context):
            spec, env = open_dataset(self.dataset)
            interval = run_interval(spec, request)
            try:
                return require_complete(spec, interval, env)
            except WindowOpenError as error:
                if not (request.is_scheduled or request.is_backfill):
                    raise AirflowFailException(str(error)) from error
                logger.info("%s; looking again in %.0f s", error, self.poll_s)
            except StorageError as error:
                # Who has waited for hours can wait until the file system answers again.
                if event is None or error.outcome is not Outcome.RETRY:
                    raise
                logger.warning("%s; looking again in %.0f s", error, self.poll_s)
        return self._wait(spec, interval, env)

    def _wait(self, spec: DatasetSpec, interval: Interval, env: Environment) -> int:
        """Raise what makes Airflow wait."""
        from trainfeed.build.logs_complete import folder_of_logs

        if not self.deferrable:
            raise call_again(datetime.now(UTC) + timedelta(seconds=self.poll_s))
        logs = spec.source.logs
        stable = logs.stable if logs else None
        self.defer(
            trigger=LogsCompleteTrigger(
                folder=folder_of_logs(spec, interval, env).uri,
                marker=logs.marker if logs else None,
                stable_s=None if stable is None else stable.total_seconds(),
                poll_s=self.poll_s,
            ),
            method_name="execute",
        )


class LogsCompleteTrigger(BaseTrigger):
    """Fires when a folder of log files is complete, will never be read, or was long waited for.

    It decides nothing: the task looks again, and fails when there is a reason to. It fires after
    an hour at the latest, so that the task finds out what has changed in connection and rule.

    Args:
        folder: URI of the folder; without a password, as all of ours.
        marker: Name of the file that marks a complete folder, or None.
        stable_s: How long nothing may have changed in a complete folder, or None.
        poll_s: How often to look.
    """

    def __init__(
        self, *, folder: str, marker: str | None, stable_s: float | None, poll_s: float
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.folder = folder
        self.marker = marker
        self.stable_s = stable_s
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What the database keeps of it."""
        arguments = {name: getattr(self, name) for name in ("folder", "marker", "stable_s")}
        return f"{__name__}.{type(self).__name__}", {**arguments, "poll_s": self.poll_s}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, when the task should look again."""
        for _ in range(max(1, round(_LONGEST_WAIT_S / self.poll_s))):
            if not await asyncio.to_thread(self._waits):
                break
            await asyncio.sleep(self.poll_s)
        yield TriggerEvent({"folder": self.folder})  # type: ignore[no-untyped-call]

    def _waits(self) -> bool:
        from trainfeed.sources import CompleteRule, find_logs
        from trainfeed.storage import Location

        stable = None if self.stable_s is None else timedelta(seconds=self.stable_s)
        try:
            find_logs(
                Location.parse(self.folder),
                CompleteRule(self.marker, stable),
                datetime.now(UTC),
                checksums=False,
            )
        except TrainFeedError as error:
            return error.outcome is Outcome.RETRY
        return False
