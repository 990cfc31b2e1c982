"""
One DAG `waive.<data set>` per data set: lets failed gates of a build pass, and builds again.

The form asks for the interval, the reason, and the end of the waiver's time. The waiver is about
the gates that failed, with the values that they have now; the page of the failed run shows them.
Its `who` is the Airflow user who starts this run. The second task starts `build.<data set>` for the
interval: there only `check` and `publish` do work. Who may waive gates of a data set is decided by
the rights to start this DAG. The command `trainfeed waive` does the same.
"""

from __future__ import annotations

from typing import Any, Final, cast

from airflow.sdk import DAG, Param

from dags._defaults import DEFAULT_ARGS, TAGS
from dags._docs import spec_doc
from dags._forms import INTERVAL_PATTERN, interval_param, why_param
from operators.corrections import WaiveGatesOperator
from trainfeed.specification import DatasetSpec

_OPTIONAL: Final[dict[str, Any]] = {"type": ["null", "string"], "pattern": INTERVAL_PATTERN}


def waive_dag(spec: DatasetSpec) -> DAG:
    """Return the DAG that lets failed gates of one data set pass."""
    # Imported here: a task of another DAG that parses its file again does not need it.
    from airflow.providers.standard.operators.trigger_dagrun import (  # noqa: PLC0415
        TriggerDagRunOperator,
    )

    with DAG(
        dag_id=f"waive.{spec.name}",
        description=f"Let failed gates of a build of {spec.name} pass",
        doc_md=spec_doc(spec),
        schedule=None,
        params=_form(spec),
        default_args=DEFAULT_ARGS,
        tags=[*TAGS, spec.name],
    ) as dag:
        waive = WaiveGatesOperator(task_id="waive", dataset=spec.name, multiple_outputs=True)
        TriggerDagRunOperator(
            task_id="build",
            trigger_dag_id=f"build.{spec.name}",
            conf=cast("Any", waive.output)["conf"],
        )
    return dag


def _form(spec: DatasetSpec) -> dict[str, Param]:
    first = spec.schedule_model().first_name
    return {
        "interval": interval_param(", as on the page of the failed run", such_as=first),
        "why": why_param("the manifest of the version"),
        "until": Param(
            type="string",
            format="date",
            title="Until",
            description="Midnight of this day, UTC, at most a year ahead: later, the build does not"
            " pass any more.",
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
    }
