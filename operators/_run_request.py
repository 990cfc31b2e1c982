"""What a run says about the interval that it is for, and its parameters.

Airflow checks the values of parameters that it knows, and lets all others through.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from trainfeed.errors import ConfigError
from trainfeed.intervals import Interval, WindowRequest, resolve_interval
from trainfeed.specification import did_you_mean

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.specification import DatasetSpec

__all__ = [
    "require_known",
    "run_interval",
    "window_request",
]

logger = logging.getLogger(__name__)


def run_interval(spec: DatasetSpec, request: WindowRequest) -> Interval:
    """The interval that a run is for; the log says which one, and why that one.

    Raises:
        WindowError: The run means no interval of the schedule.
    """
    interval = resolve_interval(spec.schedule_model(), request)
    logger.info("interval %s of %s, by %s", interval.name, spec.name, request.origin)
    return interval


def window_request(context: Context) -> WindowRequest:
    """Collect it from the task's context.

    Runs differ in what they have. ``data_interval_*`` are missing keys in runs without a logical
    date: partitioned ones, and those triggered with none; of a run of a partitioned DAG that was
    triggered with one, the interval is empty and means nothing. ``partition_key`` is None outside
    of partitioned DAGs, and the parameter is None unless it was set.
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


def require_known(given: Iterable[str], *known: str) -> None:
    """Refuse a parameter that the form does not have: a misspelt ``dry_run`` would do it all.

    Args:
        given: Names of the parameters of the run.
        *known: Names of those of the form.

    Raises:
        ConfigError: Names the first that is not known, and the nearest that is.
    """
    for name in given:
        if name not in known:
            raise ConfigError(
                f"expected the parameters of the form, got {name!r}; nothing was read or written;"
                f" {did_you_mean(name, known)}"
            )
