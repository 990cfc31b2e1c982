"""
The DAG `withdraw`: hides a version from readers, or gives one back.

Readers and trainings turn to the generation before, whose files are all compared with their
manifest first. The same content is not built again, at night or by hand, until somebody restores it
or builds with a new reason. `who` is the Airflow user who starts this run; the mark and the history
keep who, why and when. The commands `trainfeed withdraw` and `trainfeed restore` do the same.
"""

from __future__ import annotations

from typing import Any, Final

from airflow.sdk import DAG, Param

from dags._defaults import DEFAULT_ARGS, TAGS
from operators.corrections.withdraw_version import WithdrawVersionOperator

_NAME: Final[dict[str, Any]] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"}

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
        "dataset": Param(**_NAME, title="Data set"),
        "interval": Param(**_NAME, title="Interval", description="Such as 2013-01-01."),
        "generation": Param(
            None,
            type=["null", "string"],
            pattern="^g[0-9]{4,}$",
            title="Generation",
            description="Such as g0002; by default the one that readers get, or the newest"
            " withdrawn one.",
        ),
        "why": Param(
            type="string",
            minLength=3,
            maxLength=500,
            pattern=r"\S",
            title="Why",
            description="The reason, which the mark and the history keep.",
        ),
        "move_tags": Param(
            False,
            type="boolean",
            title="Move tags",
            description="Tags that name the version then name what readers get; otherwise opening"
            " them fails.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Check everything, log what would happen, and change nothing.",
        ),
    },
    default_args=DEFAULT_ARGS,
    tags=[*TAGS],
) as dag:
    WithdrawVersionOperator(task_id="withdraw")
