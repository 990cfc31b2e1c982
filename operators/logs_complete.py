"""Waits until the folder of log files of an interval is complete, without a worker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from operators.outcome import airflow_outcome, call_again
from operators.runs import run_interval, window_request
from operators.stages import open_dataset
from trainfeed.core.intervals import WindowRequest, format_time
from trainfeed.errors import Outcome, StorageError, TrainFeedError, WindowOpenError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.core.config import Environment
    from trainfeed.core.intervals import Interval
    from trainfeed.specification import DatasetSpec


logger = logging.getLogger(__name__)

_POLL_S: Final = 60.0
_LONGEST_WAIT_S: Final = 3600.0


class LogsCompleteSensor(BaseOperator):
    """Wait until the folder of log files of the run's interval is complete.

    In runs of the schedule the task waits without a worker slot: in the triggerer, or by being
    called again. The wait does not count for time limits. It ends ``source.logs.wait`` after the
    interval has ended and settled, and then ``source.logs.missing`` decides. Other runs do not
    wait, and fail: a triggered run because a person waits for it, a run of a backfill because it
    would keep others from starting.

    Args:
        dataset: Name of the data set.
        deferrable: Whether the triggerer waits.
        poll_s: Seconds between two looks at the folder.

    Returns:
        The number of log files in the folder; 0 if ``plan`` will find a version or skip the
        interval.
    """

    def __init__(
        self, *, dataset: str, deferrable: bool = True, poll_s: float = _POLL_S, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.deferrable = deferrable
        self.poll_s = poll_s

    def execute(self, context: Context, event: Mapping[str, object] | None = None) -> int:
        """Look at the folder, and wait if it is not complete.

        Args:
            context: The task's context.
            event: The event of the trigger; None in the first call.
        """
        request = window_request(context)
        with airflow_outcome(context):
            spec, env = open_dataset(self.dataset)
            interval = run_interval(spec, request)
            spec = spec.for_interval(interval.start)
            # The members of a union have folders of their own, and are waited for in turn.
            parts: dict[str | None, DatasetSpec] = dict(spec.members.items()) or {None: spec}
            waiting, files = None, 0
            for name, each in parts.items():
                found = self._look(name, (each, interval, env), request, is_first=event is None)
                if found is None:
                    waiting = each
                    break
                files += found
        return files if waiting is None else self._wait(waiting, interval, env)

    def _look(
        self,
        member: str | None,
        place: tuple[DatasetSpec, Interval, Environment],
        request: WindowRequest,
        *,
        is_first: bool,
    ) -> int | None:
        """Return the number of log files of one source; None if it is waited for."""
        from trainfeed.pipeline.members import telling_member
        from trainfeed.pipeline.planner.decision import require_complete, waits_until

        spec, interval, _ = place
        if spec.source.logs is None:
            logger.info("%s comes from a topic, which has no folder", interval.name)
            return 0
        try:
            with telling_member(member):
                return require_complete(*place)
        except WindowOpenError as error:
            if not request.is_scheduled:
                raise AirflowFailException(_refusal(error, request)) from error
            logger.info("%s; looking again in %.0f s", error, self.poll_s)
        except StorageError as error:
            # A run that has waited for hours can wait until the file system answers again.
            is_over = datetime.now(UTC) >= waits_until(spec, interval)
            if is_first or is_over or error.outcome is not Outcome.RETRY:
                raise
            logger.warning("%s; looking again in %.0f s", error, self.poll_s)
        return None

    def _wait(self, spec: DatasetSpec, interval: Interval, env: Environment) -> int:
        """Raise the exception by which Airflow waits."""
        from trainfeed.pipeline.inputs.logs import logs_of
        from trainfeed.pipeline.planner.decision import folders_of_logs, waits_until

        now = datetime.now(UTC)
        until = waits_until(spec, interval)
        logger.info("waiting until %s at most", format_time(until))
        if not self.deferrable:
            raise call_again(now + timedelta(seconds=self.poll_s))
        logs, folders = logs_of(spec), folders_of_logs(spec, interval, env)
        self.defer(
            trigger=LogsCompleteTrigger(
                folder=folders.top.uri,
                bases=list(folders.bases),
                below=folders.below,
                marker=logs.marker,
                stable_s=None if logs.stable is None else logs.stable.total_seconds(),
                poll_s=self.poll_s,
                longest_s=min(max((until - now).total_seconds(), 1.0), _LONGEST_WAIT_S),
            ),
            method_name="execute",
        )


def _refusal(error: WindowOpenError, request: WindowRequest) -> str:
    """Return the message for a run that does not wait."""
    if not request.is_backfill:
        return str(error)
    return (
        f"{error}; runs of a backfill do not wait, they would keep others from starting: when the"
        " folder is complete, start the backfill once more, with the runs that failed"
        " (--reprocess-behavior failed)"
    )


class LogsCompleteTrigger(BaseTrigger):
    """Fires when a folder of log files is complete or cannot be read, or after a time limit.

    The trigger decides nothing: the task looks at the folder again, and fails if necessary. The
    trigger fires after an hour at the latest, so that the task notices changes of connection and
    rule, and the end of the wait.

    Args:
        folder: URI of the folder, without a password.
        bases: Paths below it of the folders that are to be complete.
        below: Path from these to the folders that hold files, perhaps with ``*``.
        marker: Name of the file that marks a complete folder, or None.
        stable_s: Seconds without a change in a complete folder, or None.
        poll_s: Seconds between two looks.
        longest_s: Seconds after which the trigger fires in any case.
    """

    def __init__(  # noqa: PLR0913 - what its row in the database has
        self,
        *,
        folder: str,
        marker: str | None,
        stable_s: float | None,
        poll_s: float,
        longest_s: float = _LONGEST_WAIT_S,
        bases: Sequence[str] = ("",),
        below: str = "",
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.folder = folder
        self.bases = list(bases)
        self.below = below
        self.marker = marker
        self.stable_s = stable_s
        self.poll_s = poll_s
        self.longest_s = longest_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class and arguments for the database of Airflow."""
        names = ("folder", "marker", "stable_s", "poll_s", "longest_s", "bases", "below")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, when the task should look again."""
        ends_s = time.monotonic() + self.longest_s
        while await asyncio.to_thread(self._waits):
            left_s = ends_s - time.monotonic()
            if left_s <= 0:
                break
            await asyncio.sleep(min(self.poll_s, left_s))
        yield TriggerEvent({"folder": self.folder})  # type: ignore[no-untyped-call]

    def _waits(self) -> bool:
        from trainfeed.files.stores import Location
        from trainfeed.sources import CompleteRule, FolderTree, find_logs

        stable = None if self.stable_s is None else timedelta(seconds=self.stable_s)
        try:
            find_logs(
                FolderTree(Location.parse(self.folder), tuple(self.bases), self.below),
                CompleteRule(self.marker, stable),
                datetime.now(UTC),
                checksums=False,
            )
        except TrainFeedError as error:
            return error.outcome is Outcome.RETRY
        return False
