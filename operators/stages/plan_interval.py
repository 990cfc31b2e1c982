"""Interval of a run → plan: inputs and outputs, fixed before anything is read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from airflow.sdk import BaseOperator, XComArg
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from operators._outcome import airflow_outcome, call_again
from operators._run_request import require_known, run_interval, window_request
from operators._stage import open_dataset
from operators.trainings.training_wish import hand_over
from trainfeed.errors import IngestError, Outcome, TransactionOpenError, WindowOpenError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.intervals import WindowRequest
    from trainfeed.pipeline import JsonObject, PlanReport, SkipReport
    from trainfeed.pipeline.preview import DryRun

__all__ = ["OUTDATED_RULES", "PlanIntervalOperator"]

logger = logging.getLogger(__name__)

# The values of the parameter ``outdated``; those of ``trainfeed.pipeline.OutdatedRule``.
OUTDATED_RULES: Final = ("fail", "keep", "rebuild")

_PLAN_KEY: Final = "plan"
_PARAMETERS: Final = ("window_start", "dry_run", "rebuild", "outdated", "replay", "allow_gap")
_REASONS: Final = ("rebuild", "allow_gap")
_OF_TRAININGS: Final = ("training", "catch_up")
# A waiting run notices within this time if the settle time in the specification becomes shorter.
_LONGEST_WAIT: Final = timedelta(minutes=10)
_SHORTEST_WAIT: Final = timedelta(seconds=5)


class PlanIntervalOperator(BaseOperator):
    """Plan the interval of the run.

    In runs of the schedule and of backfills the task waits, without a worker slot, until the
    interval has ended and settled. In triggered runs it fails instead, because a person is waiting.
    The same applies while an open transaction may hide records, but not longer than the topics'
    ``transaction_wait``. A run of the schedule also waits, until the ``wait`` of the specification
    ends, for a topic without a record of the interval, for a source that does not answer, and for
    uploads of an inner join; runs of backfills fail instead, because a waiting run would keep the
    others of the backfill from starting.

    If the specification skips the interval, this task and all later ones are skipped with the
    reason: there is no version and no event.

    If the interval is published and outdated, the parameter ``outdated`` decides: the task fails;
    or it keeps the version, and all later tasks find it published; or it plans the next generation.

    With the parameter ``replay`` the interval is planned from its last build, without the source,
    if that build quarantined records; if it did not, this task and all later ones are skipped.

    With the parameter ``dry_run`` the task reports what a build would do (log, and XCom ``plan``)
    and returns nothing to map over, so that Airflow skips the later stages.

    Args:
        dataset: Name of the data set.
        trains: Whether a training follows, so that runs have the parameters ``training`` and
            ``catch_up``.

    Returns:
        The numbers 0, 1, … of the units, for the mapped stages to map over: as many as the stage
        with most units has. The report of the plan is the XCom ``plan``.
    """

    def __init__(self, *, dataset: str, trains: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.trains = trains

    @property
    def plan(self) -> XComArg:
        """The XCom with the report of the plan: argument of all later stages."""
        return XComArg(self, _PLAN_KEY)

    def execute(self, context: Context) -> list[int]:
        """Plan, or ask to be called again when the interval has settled."""
        from trainfeed.pipeline import PlanReport, SkipReport

        request = window_request(context)
        with airflow_outcome(context):
            further = _OF_TRAININGS if self.trains else ()
            require_known(context["params"], *_PARAMETERS, *further)
            try:
                planned = self._plan(request, context["params"])
            except WindowOpenError as error:
                raise _later(error, request, context, datetime.now(UTC)) from error
            except IngestError as error:
                at = self._asks_again(request, datetime.now(UTC))
                if at is None or error.outcome is not Outcome.RETRY:
                    raise
                logger.warning("%s; looking again at %s", error, at)
                raise call_again(at) from error
        if not isinstance(planned, PlanReport | SkipReport):
            context["ti"].xcom_push(key=_PLAN_KEY, value=_told(planned))
            return []
        context["ti"].xcom_push(key=_PLAN_KEY, value=planned.to_json())
        if isinstance(planned, SkipReport):
            with airflow_outcome(context):
                self._hand_over(planned.interval, context)
            raise AirflowSkipException(planned.note)
        return list(range(max(planned.tasks.values())))

    def _asks_again(self, request: WindowRequest, now: datetime) -> datetime | None:
        """Return when a run looks again at a source that does not answer; None if it fails now."""
        from trainfeed.intervals import ready_at

        spec, _ = open_dataset(self.dataset)
        until = ready_at(run_interval(spec, request), spec.source.kind.settle) + spec.wait
        if not request.is_scheduled or now >= until:
            return None
        return min(until, now + _LONGEST_WAIT)

    def _hand_over(self, interval: str, context: Context) -> None:
        """Hand the wish ``training: last`` of a skipped interval over to the interval before."""
        from trainfeed.dataset import DatasetFolder

        if not self.trains:
            return
        spec, env = open_dataset(self.dataset)
        version = hand_over(spec, DatasetFolder(Path(env.root), spec.name), interval, context)
        if version is not None:
            logger.warning(
                "training: last, and %s is left out: %s counts as untrained; the next run of"
                " build.%s starts its training, and so does trainfeed train %s --catch-up missed",
                interval, version.interval, spec.name, spec.name,
            )  # fmt: skip

    def _plan(
        self, request: WindowRequest, params: Mapping[str, object]
    ) -> PlanReport | SkipReport | DryRun:
        from trainfeed.pipeline import OutdatedRule
        from trainfeed.pipeline.plan import plan
        from trainfeed.pipeline.preview import dry_run

        spec, env = open_dataset(self.dataset)
        interval = run_interval(spec, request)
        rebuild, allow_gap = (cast("str | None", params.get(name)) for name in _REASONS)
        # Runs of an older release, which are cleared now, have no such parameter.
        outdated = OutdatedRule(str(params.get("outdated") or OutdatedRule.FAIL))
        make = dry_run if params.get("dry_run") else plan
        if params.get("replay"):
            _require_only_replay(params)
            make = partial(plan, replay=True)
        return make(spec, interval, env, rebuild=rebuild, allow_gap=allow_gap, outdated=outdated)


def _require_only_replay(params: Mapping[str, object]) -> None:
    from trainfeed.errors import ConfigError

    if params.get("dry_run"):
        raise ConfigError(
            "expected replay or dry_run, got both; nothing was read or written; trainfeed"
            " quarantine preview says what a replay would change"
        )


def _told(found: DryRun) -> JsonObject:
    """Return the XCom of a dry run for the page of the run, and log its lines."""
    from trainfeed.pipeline.preview import describe

    lines = describe(found)
    for line in lines:
        logger.info("%s", line)
    return {**found.to_json(), "lines": lines}


def _later(
    error: WindowOpenError, request: WindowRequest, context: Context, now: datetime
) -> Exception:
    """Return the exception by which Airflow calls the task again, or fails it."""
    if not (request.is_scheduled or request.is_backfill):
        return AirflowFailException(str(error))
    if error.until is not None and request.is_backfill:
        return AirflowFailException(
            f"{error}; runs of a backfill do not wait, they would keep others from starting: start"
            " the backfill once more later, with the runs that failed (--reprocess-behavior failed)"
        )
    if isinstance(error, TransactionOpenError) and now >= _deadline(error, context):
        return AirflowFailException(
            f"{error}; they were expected to end within {error.wait} (transaction_wait in"
            " dataset.yaml), so this run waits no longer; clear this task when the transactions"
            " have ended"
        )
    ready_at = error.ready_at or error.until or now + _LONGEST_WAIT
    logger.info("%s; looking again then, or in %s", error, _LONGEST_WAIT)
    return call_again(min(max(ready_at, now + _SHORTEST_WAIT), now + _LONGEST_WAIT))


def _deadline(error: TransactionOpenError, context: Context) -> datetime:
    """Return the time until which the run waits for open transactions."""
    run = context["dag_run"]
    started = run.start_date or run.run_after
    # The wait for the interval to end and settle does not count.
    return max(started, error.since or started) + error.wait
