"""
The DAG `models`: promotes a version of a model, or rolls `prod` back to the version before.

The trigger form asks for the model, the action, the version and the reason, which the history of
the alias keeps. The version is verified first: every file must have the size and SHA-256 of its
manifest. Clearing the task does not repeat the change. The commands `trainfeed models promote` and
`trainfeed models rollback` do the same.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from dags._defaults import DEFAULT_ARGS, TAGS
from operators.trainings import ChangeProdOperator

with DAG(
    dag_id="models",
    description="Promote a model, or roll back",
    doc_md=__doc__,
    schedule=None,
    params={
        "action": Param(
            "promote",
            type="string",
            enum=["promote", "rollback"],
            title="Action",
            description="'promote' points prod to the version below; 'rollback' points prod to the"
            " version before the current one.",
        ),
        "model": Param(
            type="string",
            pattern="^[a-z][a-z0-9_]{0,62}$",
            title="Model",
            description="The name in train.model of dataset.yaml.",
        ),
        "version": Param(
            None,
            type=["null", "string"],
            pattern="^v[0-9]{4,}$",
            title="Version",
            description="Such as v0003; needed to promote. A rollback with a version is refused"
            " unless prod points to that version.",
        ),
        "why": Param(
            type="string",
            minLength=3,
            maxLength=500,
            pattern=r"\S",
            title="Why",
            description="The reason, which the history of the model keeps.",
        ),
    },
    default_args=DEFAULT_ARGS,
    tags=[*TAGS],
) as dag:
    ChangeProdOperator(task_id="change")
