"""The interval and the identity of a run, from its context, and the check of its parameters.

Airflow checks the values of parameters that it knows, and accepts unknown parameters.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from trainfeed.errors import ConfigError
from trainfeed.intervals import Interval, WindowRequest, format_time, resolve_interval
from trainfeed.specification import did_you_mean

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.specification import DatasetSpec

__all__ = [
    "require_known",
    "run_identity",
    "run_interval",
    "window_request",
]

logger = logging.getLogger(__name__)


def run_interval(spec: DatasetSpec, request: WindowRequest) -> Interval:
    """Return the interval of a run, and log it with the deciding fact.

    Raises:
        WindowError: The request gives no interval of the schedule.
    """
    interval = resolve_interval(spec.schedule_model(), request)
    logger.info("interval %s of %s, by %s", interval.name, spec.name, request.origin)
    return interval


def window_request(context: Context) -> WindowRequest:
    """Return the request of a run, from a task's context.

    Not every run has every key. Runs without a logical date (of partitioned DAGs, or triggered
    without one) have no ``data_interval_*``. A run of a partitioned DAG that was triggered with a
    logical date has an empty interval, which is ignored here. ``partition_key`` is None outside of
    partitioned DAGs, and the parameter is None unless it was set.
    """
    run_type = str(context["dag_run"].run_type.value)
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    has_interval = start != end
    return WindowRequest(
        window_start=context["params"].get("window_start"),
        partition_key=context.get("partition_key"),
        data_interval_start=start if has_interval else None,
        data_interval_end=end if has_interval else None,
        is_backfill=run_type == "backfill",
        is_scheduled=run_type == "scheduled",
    )


def run_identity(context: Context) -> str:
    """Return what names a run for ever, also after a deletion and another run with its id.

    Run ids are unique in one DAG only, and a person may give a run any id. Clearing a run does not
    change the time after which it may run.
    """
    run = context["dag_run"]
    return f"{run.dag_id}/{run.run_id} of {format_time(run.run_after)}"


def require_known(given: Iterable[str], *known: str) -> None:
    """Refuse parameters that the form does not have: a misspelt ``dry_run`` would build.

    Args:
        given: Names of the parameters of the run.
        *known: Names of the parameters of the form.

    Raises:
        ConfigError: A parameter is unknown; the message has its name and the nearest known one.
    """
    for name in given:
        if name not in known:
            raise ConfigError(
                f"expected the parameters of the form, got {name!r}; nothing was read or written;"
                f" {did_you_mean(name, known)}"
            )
