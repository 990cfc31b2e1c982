"""
The DAG `repair`: repairs the damaged files of a published version, which `trainfeed verify` finds.

A file is copied from where it is intact, or made again by the stages of the version's plan, from
its landing files or the source. It replaces the damaged file only with the size and SHA-256 of the
manifest, so a version stays what was published. Foreign files are moved to `_trash`. The log has
every finding and its outcome; damage that is left fails the run, with what can be done about it.
The command `trainfeed repair` does the same.
"""

from __future__ import annotations

from typing import Any, Final

from airflow.sdk import DAG, Param

from dags._defaults import DEFAULT_ARGS, MAPPED_LIMIT, TAGS
from operators.corrections.repair_version import RepairVersionOperator

_NAME: Final[dict[str, Any]] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"}

with DAG(
    dag_id="repair",
    description="Damaged files of a published version become what they were",
    doc_md=__doc__,
    schedule=None,
    params={
        "dataset": Param(**_NAME, title="Data set"),
        "interval": Param(**_NAME, title="Interval", description="Such as 2013-01-01."),
        "generation": Param(
            None,
            type=["null", "string"],
            pattern="^g[0-9]{4,}$",
            title="Generation",
            description="Such as g0001; by default the one that readers get.",
        ),
        "why": Param(
            None,
            type=["null", "string"],
            maxLength=500,
            title="Why",
            description="A reason, which the history keeps.",
        ),
        "copy_from": Param(
            None,
            type=["null", "string"],
            pattern="^/",
            title="Copy from",
            description="A folder of the worker with a copy of the version, such as that of a"
            " snapshot: files with the published digests are taken from there.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Only log the damage, and how it would be repaired.",
        ),
    },
    default_args=DEFAULT_ARGS,
    tags=[*TAGS],
) as dag:
    RepairVersionOperator(task_id="repair", execution_timeout=MAPPED_LIMIT)
