"""
The DAG `retire`: removes all versions of the intervals of a range for good. Nothing brings them
back, so the form begins as a dry run: look at what would go, then trigger once more with *Dry run*
off. Landing files, which hold the raw records, go with them only where `retention.landing` in
dataset.yaml has a rule.

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
from operators.corrections import RetireIntervalsOperator

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
        "dry_run": dry_run_param(
            "On: show what would go for good, and what needs it, on the page of the run; change"
            " nothing. Look at that page, then trigger once more with Dry run off. Off: all"
            " versions of the range are removed for good, and nothing brings them back. Landing"
            " files, which hold the raw records, go only where retention.landing in dataset.yaml"
            " has a rule.",
            is_on=True,
        ),
    },
    default_args=DEFAULT_ARGS,
    tags=[*TAGS],
) as dag:
    RetireIntervalsOperator(task_id="retire", execution_timeout=MAPPED_LIMIT)
