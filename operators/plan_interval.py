"""Interval of a run → plan: what is read and made, fixed before anything is read."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator, XComArg
from airflow.sdk.exceptions import AirflowFailException

from operators._outcome import airflow_outcome, call_again
from operators._parameters import require_known
from operators._stage import open_dataset
from operators._window import run_interval, window_request
from trainfeed.errors import WindowOpenError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.window import WindowRequest

__all__ = ["PlanIntervalOperator"]

logger = logging.getLogger(__name__)

_PLAN_KEY: Final = "plan"
_MAPPED_STAGES: Final = ("ingest", "preprocess", "convert")
_PARAMETERS: Final = ("window_start", "dry_run", "rebuild", "allow_gap")
# The spec's settle time may be shortened while a run waits; then it is noticed within this time.
_LONGEST_WAIT: Final = timedelta(minutes=10)
_SHORTEST_WAIT: Final = timedelta(seconds=5)


class PlanIntervalOperator(BaseOperator):
    """Plan the interval that the run is for.

    In runs of the schedule and of backfills it waits, without holding a worker slot, until the
    interval has ended and settled; in triggered runs it fails, because a person is waiting.

    With the parameter ``dry_run`` it says what would be done (log, and XCom ``plan``) and gives
    the later stages nothing to map over, so that Airflow skips them.

    Args:
        dataset: Name of the data set.

    Returns:
        The numbers of the units, for the mapped stages to map over: 0, 1, … up to the number of
        units of the stage that has most. What was planned is the XCom ``plan``.
    """

    def __init__(self, *, dataset: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset

    @property
    def plan(self) -> XComArg:
        """What was planned: argument of all later stages."""
        return XComArg(self, _PLAN_KEY)

    def execute(self, context: Context) -> list[int]:
        """Plan, or ask to be called again when the interval has settled."""
        request = window_request(context)
        with airflow_outcome(context):
            require_known(context["params"], *_PARAMETERS)
            try:
                planned = self._plan(request, context["params"])
            except WindowOpenError as error:
                raise _later(error, request, datetime.now(UTC)) from error
        context["ti"].xcom_push(key=_PLAN_KEY, value=planned)
        if planned.get("dry_run"):
            return []
        return list(range(max(len(planned[stage]) for stage in _MAPPED_STAGES)))

    def _plan(self, request: WindowRequest, params: dict[str, Any]) -> dict[str, Any]:
        from trainfeed.build.dry_run import describe, dry_run
        from trainfeed.build.plan import plan

        spec, env = open_dataset(self.dataset)
        interval = run_interval(spec, request)
        rebuild, allow_gap = params.get("rebuild"), params.get("allow_gap")
        if not params.get("dry_run"):
            return plan(spec, interval, env, rebuild=rebuild, allow_gap=allow_gap)
        report = dry_run(spec, interval, env, rebuild=rebuild, allow_gap=allow_gap)
        lines = describe(report)
        for line in lines:
            logger.info("%s", line)
        return {**report, "lines": lines}


def _later(error: WindowOpenError, request: WindowRequest, now: datetime) -> Exception:
    """The exception that makes Airflow call again, or fail the task."""
    if not (request.is_scheduled or request.is_backfill):
        return AirflowFailException(str(error))
    ready_at = error.ready_at or now + _LONGEST_WAIT
    logger.info("%s; looking again then, or in %s", error, _LONGEST_WAIT)
    return call_again(min(max(ready_at, now + _SHORTEST_WAIT), now + _LONGEST_WAIT))
