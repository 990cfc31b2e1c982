"""
The DAG `retire`: removes all versions of the intervals of a range for good.

Nothing is removed if a tag, a lease of a reader, a training without a result, a plan or a gate
needs one of the intervals: the task fails, and its log names each. Days that were skipped or never
published are retired, too. The numbers are never used again; a build with a reason makes a retired
interval anew. `who` is the Airflow user who starts this run. The right to start this DAG is the
right to remove versions of every data set. The command `trainfeed retire` does the same.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from dags._defaults import DEFAULT_ARGS, MAPPED_LIMIT, TAGS
from dags._forms import dataset_param, dry_run_param, why_param
from operators.corrections.retire_intervals import RetireIntervalsOperator

with DAG(
    dag_id="retire",
    description="Whole intervals are removed for good",
    doc_md=__doc__,
    schedule=None,
    params={
        "dataset": dataset_param(),
        "range": Param(
            type="string",
            pattern="^[A-Za-z0-9][A-Za-z0-9:.+-]{0,63}(/[A-Za-z0-9][A-Za-z0-9:.+-]{0,63})?$",
            title="Range",
            description="2013-01-01, 2013-01, or both ends: 2013-01/2013-03.",
        ),
        "why": why_param("each interval"),
        "dry_run": dry_run_param("Log what would go and what needs it; change nothing."),
    },
    default_args=DEFAULT_ARGS,
    tags=[*TAGS],
) as dag:
    RetireIntervalsOperator(task_id="retire", execution_timeout=MAPPED_LIMIT)
