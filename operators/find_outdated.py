"""All data sets → their outdated versions, and what their sources say: a report, and no build."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from operators._outcome import airflow_outcome
from operators._run_request import require_known
from operators._stage import open_dataset
from operators._told_result import tell_result
from operators.datasets import datasets_folder
from trainfeed.errors import TrainFeedError
from trainfeed.paths import listed
from trainfeed.specification import SPEC_FILE

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.outdated import OutdatedReport
    from trainfeed.pipeline import JsonObject

__all__ = ["FindOutdatedOperator"]

logger = logging.getLogger(__name__)

# Largest number of intervals of a data set whose findings are logged one by one.
_SHOWN = 50


class FindOutdatedOperator(BaseOperator):
    """Report the outdated versions of all data sets; with ``against_source``, ask their sources.

    Outdated versions do not fail the task: after a change of code on purpose, every night would
    fail until somebody has decided. A data set that cannot be compared does, after all others.

    Returns:
        Data set → ``counts``, ``in_order``, ``causes``, ``cost`` and ``doubts`` of its report.
    """

    def execute(self, context: Context) -> JsonObject:
        """Compare all data sets, and log what differs."""
        params = context["params"]
        found: JsonObject = {}
        failed: list[str] = []
        told: list[str] = []
        with airflow_outcome(context):
            require_known(params, "against_source")
            for name in _names():
                try:
                    report = _report(name, against_source=bool(params["against_source"]))
                except TrainFeedError as error:
                    logger.error("%s was not compared: %s", name, error)  # noqa: TRY400
                    told.append(f"{name} was not compared: {error}")
                    failed.append(name)
                    continue
                told += _lines(report)
                found[name] = _small(report)
            tell_result(context, "all data sets", told)
            if failed:
                context["ti"].xcom_push(key="compared", value=found)
                raise AirflowFailException(
                    f"{', '.join(failed)} could not be compared, the result has the errors; the"
                    f" other {len(found)} data sets were"
                )
        return found


def _names() -> list[str]:
    places = listed(datasets_folder())
    return sorted(place.name for place in places if (place / SPEC_FILE).is_file())


def _report(name: str, *, against_source: bool) -> OutdatedReport:
    from trainfeed.outdated import compare_with_source, find_outdated

    spec, env = open_dataset(name)
    report = find_outdated(spec, env)
    return compare_with_source(spec, env, report) if against_source else report


def _lines(report: OutdatedReport) -> list[str]:
    """Return the states of a data set's versions, the causes, and what its source says."""
    counts = ", ".join(f"{number} {state}" for state, number in report.counts.items())
    remarks = [each for each in report.intervals if each.source is not None and each.source.told]
    more = len(remarks) - _SHOWN
    return [
        f"{report.dataset}: {counts or 'no version'}",
        *(f"  {cause.text} ({cause.intervals}, first {cause.first})" for cause in report.causes),
        *(f"  {each.interval}: {each.why}" for each in remarks[:_SHOWN]),
        *([f"  … and {more} more intervals with a remark"] if more > 0 else []),
        *(f"  {doubt}" for doubt in report.doubts),
    ]


def _small(report: OutdatedReport) -> JsonObject:
    """Return the report without its intervals, because an XCom is a row of a database."""
    told = report.to_json()
    return {key: value for key, value in told.items() if key not in {"dataset", "intervals"}}
