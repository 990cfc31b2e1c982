"""
One DAG `build.<data set>` per folder of `include/datasets`: source → published version.

A run builds one interval of the data set's schedule: the interval of the parameter `window_start`,
or without it the data interval of the run. For a triggered run with a logical date that is the last
interval that had ended by then. A run for a time without an interval fails in its first task, and
the error names that time. Runs of the schedule are named after their interval, and every run has
the interval as its note, unless it has a note already. With `preprocess.engine: spark` one task
`spark` is in the place of the mapped tasks `preprocess` and `convert`. If a gate of the data set
has the severity `ask`, there is a task `ask` before `publish`: skipped unless such a gate fails, it
waits up to seven days for a person, whose approval is recorded as a waiver. The task `publish`
emits an event of the asset `trainfeed://<data set>` with the interval's name as partition key, also
if the version was published before. Published intervals that no training has seen, for instance
because `train.<data set>` was paused, get an event, too, so that no training is missed.
"""

from __future__ import annotations

from typing import Any, Final

from airflow.sdk import DAG, BaseOperator, chain

from dags._defaults import ANSWER_LIMIT, DEFAULT_ARGS, MAPPED_LIMIT, TAGS, dataset_asset
from dags._docs import spec_doc
from dags._limits import MAX_TASKS_OF_RUN, active_runs, asks, task_limits
from dags._params import build_params
from operators.logs_complete import LogsCompleteSensor
from operators.stages import (
    CheckOperator,
    KafkaToHdfsOperator,
    PlanIntervalOperator,
    PreprocessOperator,
    RecordIOToCephFSOperator,
    SamplesToRecordIOOperator,
)
from operators.timetable import BEFORE_ALL, IntervalTimetable
from trainfeed.specification import DatasetSpec

UNIT_LABEL: Final = "unit {{ task.unit }}"


def build_dag(spec: DatasetSpec) -> DAG:
    """Return the DAG that builds the intervals of one data set."""
    with DAG(
        dag_id=f"build.{spec.name}",
        description=spec.description or None,
        doc_md=spec_doc(spec),
        schedule=IntervalTimetable(spec.schedule_model()),
        start_date=BEFORE_ALL,
        catchup=spec.catchup,
        max_active_runs=active_runs(spec),
        max_active_tasks=MAX_TASKS_OF_RUN,
        params=build_params(spec),
        default_args=DEFAULT_ARGS,
        tags=[*TAGS, spec.name],
    ) as dag:
        _stages(spec)
    return dag


def _ask(spec: DatasetSpec, plan: PlanIntervalOperator, check: CheckOperator) -> BaseOperator:
    # Imported here: few DAGs need it, and Airflow parses DAG files every few seconds.
    from operators.ask_waiver import ANSWER_FORM, AskWaiverOperator  # noqa: PLC0415

    return AskWaiverOperator(
        task_id="ask",
        dataset=spec.name,
        plan=plan.plan,
        checked=check.output,
        params=dict(ANSWER_FORM),
        # The task holds no slot while it waits.
        response_timeout=ANSWER_LIMIT,
        execution_timeout=None,
    )


def _on_spark(**arguments: Any) -> BaseOperator:
    # Imported here: few DAGs need it, and Airflow parses DAG files every few seconds.
    from operators.spark import BuildOnSparkOperator  # noqa: PLC0415

    return BuildOnSparkOperator(task_id="spark", execution_timeout=MAPPED_LIMIT, **arguments)


def _stages(spec: DatasetSpec) -> None:
    source_pool = spec.resources.pool or "default_pool"
    limits = task_limits(spec)
    plan = PlanIntervalOperator(
        task_id="plan",
        dataset=spec.name,
        trains=spec.train is not None,
        pool=source_pool,
        **limits,
    )
    of_plan: dict[str, Any] = {"dataset": spec.name, "plan": plan.plan}
    of_unit = {
        **of_plan,
        **task_limits(spec, is_mapped=True),
        "execution_timeout": MAPPED_LIMIT,
        "map_index_template": UNIT_LABEL,
    }
    of_plan |= limits
    ingest = KafkaToHdfsOperator.partial(task_id="ingest", pool=source_pool, **of_unit)
    # Without landing, ``preprocess`` reads the source itself, and so needs the pool of the source.
    preprocess_pool = "default_pool" if spec.source.kind.lands else source_pool
    made: list[Any] = [ingest.expand(unit=plan.output)]
    if spec.preprocess.engine == "spark":
        made.append(_on_spark(pool=preprocess_pool, **of_plan))
    else:
        preprocess = PreprocessOperator.partial(
            task_id="preprocess", pool=preprocess_pool, **of_unit
        )
        convert = SamplesToRecordIOOperator.partial(task_id="convert", **of_unit)
        made += [stage.expand(unit=plan.output) for stage in (preprocess, convert)]
    is_asked = asks(spec)
    check = CheckOperator(task_id="check", asks=is_asked, **of_plan)
    ask = [_ask(spec, plan, check)] if is_asked else []
    publish = RecordIOToCephFSOperator(
        task_id="publish",
        training_dag_id=f"train.{spec.name}" if spec.train else None,
        outlets=[dataset_asset(spec.name)],
        # The task ``ask`` is skipped when no gate asks.
        trigger_rule="none_failed_min_one_success" if is_asked else "all_success",
        **of_plan,
    )
    chain(plan, *made, check, *ask, publish)
    if spec.source.kind.folder_wait is not None:
        chain(LogsCompleteSensor(task_id="wait_for_logs", dataset=spec.name), plan)
