"""A DAG with tasks, mappings and XComs as ``build.<data set>`` has, whose tasks do nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, Asset, BaseOperator, XComArg, chain

from dags._defaults import DEFAULT_ARGS, MAPPED_LIMIT
from operators.timetable import BEFORE_ALL, IntervalTimetable
from trainfeed.core.intervals import Schedule


class NothingOperator(BaseOperator):
    """Return at once what stands in the place of a report."""

    template_fields: Sequence[str] = ("plan",)

    def __init__(self, *, plan: object = None, unit: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan
        self.unit = unit

    def execute(self, context: Any) -> list[int]:
        """Return one unit; the first task pushes its report, too."""
        if self.plan is None:
            context["ti"].xcom_push(key="plan", value={})
        return [0]


def _mapped(task_id: str, plan: BaseOperator) -> Any:
    fixed = NothingOperator.partial(
        task_id=task_id, plan=XComArg(plan, "plan"), execution_timeout=MAPPED_LIMIT
    )
    return fixed.expand(unit=plan.output)


with DAG(
    "empty.ones",
    schedule=IntervalTimetable(
        Schedule("@daily", datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 12, 31, tzinfo=UTC))
    ),
    start_date=BEFORE_ALL,
    catchup=False,
    max_active_runs=10,
    default_args=DEFAULT_ARGS,
):
    first = NothingOperator(task_id="plan")
    stages = [_mapped(name, first) for name in ("ingest", "preprocess", "convert")]
    last = NothingOperator(task_id="check", plan=XComArg(first, "plan"))
    told = NothingOperator(
        task_id="publish",
        plan=XComArg(first, "plan"),
        outlets=[Asset(name="empty.ones", uri="trainfeed://empty.ones")],
    )
    chain(first, *stages, last, told)
