"""
The DAG `tag`: gives a tag to the versions of a range, moves it, or removes it.

A tag, such as `flights@prod`, names exact versions and does not follow later builds. The form asks
for the data set, the range, the tag and the reason, which the history of the tag keeps, with the
Airflow user who started the run. A dry run only logs which intervals would change. Clearing the
task does not repeat the change. The right to start this DAG is the right to tag versions of every
data set. The commands `trainfeed tag` and `trainfeed untag` do the same.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from dags._defaults import DEFAULT_ARGS, TAGS
from dags._forms import dataset_param, dry_run_param, why_param
from operators.corrections import TagVersionsOperator

with DAG(
    dag_id="tag",
    description="Give a tag to versions, move it, or remove it",
    doc_md=__doc__,
    schedule=None,
    params={
        "action": Param(
            "tag",
            type="string",
            enum=["tag", "untag"],
            title="Action",
            description="'tag' gives the tag, or moves it as a whole; 'untag' removes it, and keeps"
            " its versions and its history.",
        ),
        "dataset": dataset_param(),
        "tag": Param(
            type="string",
            pattern="^[a-z][a-z0-9._-]{0,62}$",
            title="Tag",
            description="Such as prod or jan-2026.",
        ),
        "range": Param(
            None,
            type=["null", "string"],
            maxLength=200,
            title="Range",
            description="2013-01-01, 2013-01, a/b: the versions that readers get now;"
            " 2013-01-01/g0002: one version; @next or @prod#3: what a tag names, or named. Not for"
            " 'untag'.",
        ),
        "why": why_param("the history of the tag"),
        "allow_missing": Param(
            False,
            type="boolean",
            title="Allow missing",
            description="Leave out intervals of the range without a version.",
        ),
        "verify": Param(
            False,
            type="boolean",
            title="Verify",
            description="Compare every file of the versions with its manifest before.",
        ),
        "dry_run": dry_run_param("Only log which intervals would change."),
    },
    default_args=DEFAULT_ARGS,
    tags=[*TAGS],
) as dag:
    TagVersionsOperator(task_id="tag")
