"""
The DAG `withdraw`: hides a version from readers, or gives one back.

Readers and trainings turn to the generation before, whose files are all compared with their
manifest first. A build of the same content, at night or by hand, is refused until a person restores
the version or builds with a new reason. `who` is the Airflow user who starts this run; the mark and
the history keep who, why and when. The right to start this DAG is the right to withdraw and restore
versions of every data set. The commands `trainfeed withdraw` and `trainfeed restore` do the same.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from dags._defaults import DEFAULT_ARGS, TAGS
from dags._forms import (
    dataset_param,
    dry_run_param,
    generation_param,
    interval_param,
    why_param,
)
from operators.corrections import WithdrawVersionOperator

with DAG(
    dag_id="withdraw",
    description="A published version is hidden from readers, or given back",
    doc_md=__doc__,
    schedule=None,
    params={
        "action": Param(
            "withdraw",
            type="string",
            enum=["withdraw", "restore"],
            title="Action",
            description="Hide a version, or take that back.",
        ),
        "dataset": dataset_param(),
        "interval": interval_param(),
        "generation": generation_param(
            "by default the one that readers get, or for restore the newest withdrawn one; needed"
            " to withdraw an older one after a newer one"
        ),
        "why": why_param("the mark"),
        "move_tags": Param(
            False,
            type="boolean",
            title="Move tags",
            description="Tags that name the version then name what readers get; otherwise opening"
            " them fails.",
        ),
        "dry_run": dry_run_param("Check everything, log what would happen, and change nothing."),
    },
    default_args=DEFAULT_ARGS,
    tags=[*TAGS],
) as dag:
    WithdrawVersionOperator(task_id="withdraw")
