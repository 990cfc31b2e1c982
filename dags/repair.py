"""
The DAG `repair`: repairs the damaged files of a published version, which `trainfeed verify` finds.

A file is copied from where it is intact, or made again by the stages of the version's plan, from
its landing files or the source. It replaces the damaged file only with the size and SHA-256 of the
manifest, so a version stays what was published. Foreign files are moved to `_trash`. The log has
every finding and its outcome; damage that is left fails the run, with what can be done about it.
The command `trainfeed repair` does the same.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from dags._defaults import DEFAULT_ARGS, MAPPED_LIMIT, TAGS
from dags._forms import REASON, dataset_param, dry_run_param, generation_param, interval_param
from operators.corrections import RepairVersionOperator

with DAG(
    dag_id="repair",
    description="Damaged files of a published version become what they were",
    doc_md=__doc__,
    schedule=None,
    params={
        "dataset": dataset_param(),
        "interval": interval_param(),
        "generation": generation_param("by default the one that readers get"),
        "why": Param(
            None,
            type=["null", "string"],
            **REASON,
            title="Why",
            description="The reason, which the history keeps; by default which files were damaged.",
        ),
        "copy_from": Param(
            None,
            type=["null", "string"],
            pattern="^/",
            title="Copy from",
            description="A folder of the worker with a copy of the version, such as that of a"
            " snapshot: files with the published digests are taken from there.",
        ),
        "dry_run": dry_run_param("Only log the damage, and how it would be repaired."),
    },
    default_args=DEFAULT_ARGS,
    tags=[*TAGS],
) as dag:
    RepairVersionOperator(task_id="repair", execution_timeout=MAPPED_LIMIT)
