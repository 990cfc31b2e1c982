"""
The DAG `waive`: lets failed gates of a build pass, and builds the interval again.

The form asks for the data set, the interval, the reason, and the end of the waiver's time. The
waiver is about the gates that failed, with the values that they have now; the page of the failed
run shows them. Its `who` is the Airflow user who starts this run. The second task starts
`build.<data set>` for the interval: there only `check` and `publish` do work. The command
`trainfeed waive` does the same.
"""

from __future__ import annotations

from typing import Any, Final, cast

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Param

from dags._defaults import DEFAULT_ARGS, TAGS
from operators.waive_gates import WaiveGatesOperator

_NAME: Final = "^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
_OPTIONAL: Final[dict[str, Any]] = {"type": ["null", "string"], "pattern": _NAME}

with DAG(
    dag_id="waive",
    description="Let failed gates of a build pass",
    doc_md=__doc__,
    schedule=None,
    params={
        "dataset": Param(
            type="string", pattern=_NAME, title="Data set", description="Such as flights."
        ),
        "interval": Param(
            type="string",
            pattern=_NAME,
            title="Interval",
            description="Such as 2013-01-01, as on the page of the failed run.",
        ),
        "why": Param(
            type="string",
            minLength=3,
            maxLength=500,
            pattern=r"\S",
            title="Why",
            description="The reason, which the manifest of the version keeps.",
        ),
        "until": Param(
            type="string",
            format="date",
            title="Until",
            description="Midnight of this day, UTC: later, the build does not pass any more.",
        ),
        "plan": Param(
            None,
            **_OPTIONAL,
            title="Plan",
            description="The plan that the message of the failed run names; by default that of the"
            " last attempt.",
        ),
        "check": Param(
            None, **_OPTIONAL, title="Check", description="Only gates with this check; empty: all."
        ),
        "field": Param(
            None, **_OPTIONAL, title="Field", description="Only gates of this field; empty: all."
        ),
    },
    default_args=DEFAULT_ARGS,
    tags=[*TAGS],
) as dag:
    waive = WaiveGatesOperator(task_id="waive")
    TriggerDagRunOperator(
        task_id="build",
        trigger_dag_id="build.{{ params.dataset }}",
        conf=cast("Any", waive.output)["conf"],
    )
