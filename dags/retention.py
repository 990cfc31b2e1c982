"""
The DAG `retention`: removes every night what `retention` in dataset.yaml does not keep.

What is in use stays: tags, leases of readers, trainings without a result, builds. Without rules in
dataset.yaml the DAG removes only what nobody can want, such as landing files of removed
generations; superseded generations go where dataset.yaml states how many are kept. The log names
every item that goes or stays, with the reason, and the history of the data set keeps it. A run
fails if a data set stays above its `max_bytes`. The command `trainfeed prune` does the same.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from dags._defaults import DEFAULT_ARGS, MAPPED_LIMIT, TAGS
from dags._forms import DATASET_PATTERN, REASON, dry_run_param
from operators.timetable import BEFORE_ALL
from operators.upkeep import PruneDatasetsOperator

with DAG(
    dag_id="retention",
    description="What data sets no longer keep, by their rules",
    doc_md=__doc__,
    schedule="@daily",
    start_date=BEFORE_ALL,
    catchup=False,
    max_active_runs=1,
    # On at once: without rules it removes only what nobody can want, and disks grow otherwise.
    is_paused_upon_creation=False,
    params={
        "dataset": Param(
            None,
            type=["null", "string"],
            pattern=DATASET_PATTERN,
            title="Data set",
            description="Only this one; empty: all.",
        ),
        "dry_run": dry_run_param("Only log what would be removed."),
        "clock_is_right": Param(
            None,
            type=["null", "string"],
            **REASON,
            title="The clock is right, because",
            description="Only after a run that refused, because times in a data set speak against"
            " the clock of the worker: the reason, which the history keeps.",
        ),
    },
    default_args=DEFAULT_ARGS,
    tags=[*TAGS],
) as dag:
    PruneDatasetsOperator(task_id="prune", execution_timeout=MAPPED_LIMIT)
