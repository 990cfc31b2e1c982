"""Uploads of labels → receipts, an asset event, and builds of the intervals that they belong to."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import XComArg
from airflow.sdk.exceptions import AirflowSkipException

from operators.connections import datasets_folder, environment_from_connections
from operators.outcome import airflow_outcome
from operators.runs import require_known
from operators.stages import DatasetOperator
from trainfeed.errors import FormatError
from trainfeed.specification import load_spec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.pipeline import JsonObject
    from trainfeed.specification import DatasetSpec
    from trainfeed.uploads import IntervalUploads, LeftToDo, Receipt
    from trainfeed.versions import DatasetFolder


logger = logging.getLogger(__name__)

# Largest number of builds that one run asks for; the next run asks for more.
BUILDS_LIMIT: Final = 50
# Seconds between the two looks at a file without a receipt: one that changes is being written.
BETWEEN_LOOKS_S: Final = 5.0
# Largest number of names in an event and a message.
_SHOWN: Final = 20
_REPORT_KEY: Final = "uploads"
_ACTIVE: Final = ["queued", "running"]
# Names of runs in one request.
_RUN_IDS: Final = 50


class CheckUploadsOperator(DatasetOperator):
    """Check new uploads of labels, and send an event of the asset in ``outlets`` for new receipts.

    A file without a receipt is looked at twice; one that changes in between waits for the next run.

    The event tells of all receipts that had none, also of those that a command or a build made.
    Without such a receipt there is no event. A refused file keeps no other one from its receipt.

    A closed interval without a version is built by a run of its own, unless a run of it is active.
    An interval that has not settled is left to its normal build. A published interval is not built
    again: the log names it with the way to a rebuild.

    Returns:
        Names and parameters of the runs that build intervals, to map over. The XCom ``uploads`` has
        the numbers of receipts with an event, and names of intervals by what is left to do.
    """

    @property
    def report(self) -> XComArg:
        """The XCom with the report: argument of the task that settles."""
        return XComArg(self, _REPORT_KEY)

    def execute(self, context: Context) -> list[JsonObject]:
        """Check, send the event, and return the builds; skipped when there is nothing to do."""
        from trainfeed.uploads import check_uploads, first_look, left_to_do, unannounced

        with airflow_outcome(context):
            require_known(context["params"])
            spec, folder = _open(self.dataset)
            if earlier := first_look(folder):
                _pause(BETWEEN_LOOKS_S)
            checked = check_uploads(spec, folder, earlier=earlier)
            new = unannounced(folder)
            left = left_to_do(spec, folder, datetime.now(UTC))
            builds = _builds(spec, left.buildable, context)
        _say(spec, left)
        if checked.unfinished:
            logger.info("being written, left to the next run: %s", ", ".join(checked.unfinished))
        report = _report(new, left, builds, len(checked.refused))
        for damage in checked.damaged:
            logger.error("%s", damage)
        context["ti"].xcom_push(key=_REPORT_KEY, value=report)
        if not (new or builds or checked.refused or left.damaged):
            raise AirflowSkipException("no new uploads, and no refused ones")
        self._announce(new, context)
        return builds

    def _announce(self, new: Sequence[Receipt], context: Context) -> None:
        if not new:
            # Airflow sends an event for every outlet that a task has when it succeeds.
            self.outlets.clear()
        for asset in self.outlets:
            context["outlet_events"][asset].extra = _extra(new)


class SettleUploadsOperator(DatasetOperator):
    """Write down which receipts had their event; fail if an upload is refused, or a receipt lost.

    Args:
        report: The XCom ``uploads`` of the check.
    """

    template_fields: Sequence[str] = ("report",)

    def __init__(self, *, report: object, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.report = report

    def execute(self, context: Context) -> None:
        """Write the number of the last receipt with an event, then look for refused uploads."""
        from trainfeed.uploads import ReceiptBook, interval_uploads, mark_announced

        with airflow_outcome(context):
            _, folder = _open(self.dataset)
            if announced := _announced(self.report):
                mark_announced(folder, announced)
            if refused := [f"{e.name}: {e.reason}" for e in ReceiptBook(folder).refusals()]:
                raise FormatError(_refusals(folder, refused))
            if damaged := [e for e in interval_uploads(folder) if e.damage]:
                raise FormatError("\n".join(f"{e.interval}: {e.damage}" for e in damaged[:_SHOWN]))


def _pause(seconds: float) -> None:
    Event().wait(seconds)


def _open(dataset: str) -> tuple[DatasetSpec, DatasetFolder]:
    """Return the data set and its folder; a root that is not mounted has no uploads to show."""
    from trainfeed.versions import DatasetFolder, require_root

    env = environment_from_connections(())
    require_root(env.root, env.root_setting)
    return load_spec(datasets_folder() / dataset), DatasetFolder(Path(env.root), dataset)


def _builds(
    spec: DatasetSpec, intervals: Sequence[IntervalUploads], context: Context
) -> list[JsonObject]:
    """Return the runs to ask for: one for each interval and newest receipt, ever."""
    dag_id, task = f"build.{spec.name}", context["ti"]
    found: list[JsonObject] = []
    for each in intervals:
        interval = spec.schedule_model().interval_named(each.interval)
        # Every run that a look has asked for, or will: such runs have no logical date.
        run_ids = [f"uploads__{each.interval}__{receipt.number}" for receipt in each.receipts]
        run_id = run_ids[-1]
        if task.get_dr_count(dag_id=dag_id, run_ids=[run_id]):
            logger.warning(
                "%s has no version, and %s has its run %s: if that has failed, look at it there and"
                " clear it",
                each.interval, dag_id, run_id,
            )  # fmt: skip
        elif _is_active(task, dag_id, interval.start, run_ids):
            logger.info("%s is left to its active run of %s", each.interval, dag_id)
        elif len(found) < BUILDS_LIMIT:
            start = f"{interval.start:%Y-%m-%dT%H:%M:%SZ}"
            window = each.interval if len(each.interval) == len("2013-01-01") else start
            found.append({"trigger_run_id": run_id, "conf": {"window_start": window}})
    if found and task.get_dag(dag_id).is_paused:
        logger.warning(
            "%s is paused: runs that wait until it is switched on: %d", dag_id, len(found)
        )
    return found


def _is_active(task: Any, dag_id: str, start: datetime, run_ids: Sequence[str]) -> bool:
    """Return whether a run of an interval waits or runs: a scheduled one, or one for uploads."""
    # In requests of at most this many names: they are a part of an address.
    parts = [run_ids[at : at + _RUN_IDS] for at in range(0, len(run_ids), _RUN_IDS)]
    asked: list[dict[str, Any]] = [{"logical_dates": [start]}, *({"run_ids": ids} for ids in parts)]
    return any(task.get_dr_count(dag_id=dag_id, states=_ACTIVE, **each) for each in asked)


def _say(spec: DatasetSpec, left: LeftToDo) -> None:
    if left.newer:
        logger.warning(
            "published intervals with newer uploads, which stay as they are: %d: %s; to take them,"
            " trigger build.%s with window_start and rebuild = why, or run trainfeed build %s"
            " --interval I --rebuild WHY",
            len(left.newer), _names(left.newer), spec.name, spec.name,
        )  # fmt: skip
    if left.open:
        logger.info("left to their normal builds, when they have settled: %s", _names(left.open))
    if left.retired:
        logger.info("retired intervals, built only with a reason: %s", _names(left.retired))
    if left.unscheduled:
        logger.warning(
            "intervals with uploads that are not in the schedule of dataset.yaml any more: %d: %s",
            len(left.unscheduled), _names(left.unscheduled),
        )  # fmt: skip


def _report(
    new: Sequence[Receipt], left: LeftToDo, builds: Sequence[JsonObject], refused: int
) -> JsonObject:
    return {
        "announced": [new[0].number, new[-1].number] if new else None,
        "builds": [each["trigger_run_id"] for each in builds],
        "newer_than_version": [each.interval for each in left.newer][:_SHOWN],
        "not_settled": [each.interval for each in left.open][:_SHOWN],
        "refused": refused,
    }


def _extra(new: Sequence[Receipt]) -> dict[str, Any]:
    """Return what the event tells; names are the first ones, numbers are complete."""
    intervals = sorted({receipt.interval for receipt in new})
    return {
        "receipts": [new[0].number, new[-1].number],
        "rows": sum(receipt.rows for receipt in new),
        "files": [receipt.name for receipt in new][:_SHOWN],
        "intervals": intervals[:_SHOWN],
        "num_intervals": len(intervals),
    }


def _announced(report: object) -> int:
    """Return the number of the last receipt with an event; 0 when there was none."""
    numbers = report.get("announced") if isinstance(report, dict) else None
    return numbers[-1] if numbers else 0


def _refusals(folder: DatasetFolder, refused: Sequence[str]) -> str:
    first, *others = refused
    head = (
        f"refused uploads: {len(refused)}, nothing of them is used, all others were taken; {first};"
        f" correct the file by one of another name in {folder.uploads}, and remove it there"
    )
    return "\n".join([head, *others[: _SHOWN - 1]])


def _names(intervals: Sequence[IntervalUploads]) -> str:
    names = [each.interval for each in intervals]
    more = len(names) - _SHOWN
    return ", ".join([*names[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])
