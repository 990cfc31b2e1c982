"""What a run says about the interval that it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.window import WindowRequest

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["window_request"]


def window_request(context: Context) -> WindowRequest:
    """Collect it from the task's context.

    Runs differ in what they have. ``data_interval_*`` are missing keys in runs without a logical
    date: partitioned ones, and those triggered with none; of a run of a partitioned DAG that was
    triggered with one, the interval is empty and means nothing. ``partition_key`` is None outside
    of partitioned DAGs, and the parameter is None unless somebody set it.
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
