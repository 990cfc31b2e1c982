"""
One DAG `uploads.<data set>` per data set whose specification has a part `uploads`: labels → builds.

Every 15 minutes `check` looks for new files in `uploads` below the data set; a look without new
files reads none, and skips the other tasks. New receipts make one event of the asset
`trainfeed://<data set>/uploads`: numbers and names of the receipts, number of rows, and intervals.
`build` starts `build.<data set>` for closed intervals that are not published; their runs are named
`uploads__<interval>__<number of the newest receipt>`. A published interval keeps its version: the
log names it, and a run of `build.<data set>` with the parameter `rebuild` takes the newer uploads.
`settle` fails as long as a refused file is there, after all others were taken.
"""

from __future__ import annotations

from typing import Final

from airflow.sdk import DAG, chain

from dags._defaults import DEFAULT_ARGS, TAGS, uploads_asset
from dags._docs import spec_doc
from operators.timetable import BEFORE_ALL
from operators.uploads import CheckUploadsOperator, SettleUploadsOperator
from trainfeed.specification import DatasetSpec

# An interval lasts an hour or a day, so a quarter of an hour delays no build by much. A look that
# finds no new file costs one task of some seconds. A trigger by hand looks at once.
SCHEDULE: Final = "*/15 * * * *"


def uploads_dag(spec: DatasetSpec) -> DAG:
    """Return the DAG that takes the uploads of one data set."""
    # Imported here: few DAGs need it, and Airflow parses DAG files every few seconds.
    from airflow.providers.standard.operators.trigger_dagrun import (  # noqa: PLC0415
        TriggerDagRunOperator,
    )

    with DAG(
        dag_id=f"uploads.{spec.name}",
        description=f"Uploads of labels of {spec.name}",
        doc_md=spec_doc(spec),
        schedule=SCHEDULE,
        start_date=BEFORE_ALL,
        catchup=False,
        max_active_runs=1,
        default_args=DEFAULT_ARGS,
        tags=[*TAGS, spec.name],
    ) as dag:
        check = CheckUploadsOperator(
            task_id="check", dataset=spec.name, outlets=[uploads_asset(spec.name)]
        )
        build = TriggerDagRunOperator.partial(
            task_id="build",
            trigger_dag_id=f"build.{spec.name}",
            # The interval decides, not the date of the upload.
            logical_date=None,
            skip_when_already_exists=True,
            map_index_template="{{ task.trigger_run_id }}",
        ).expand_kwargs(check.output)
        settle = SettleUploadsOperator(task_id="settle", dataset=spec.name, report=check.report)
        chain(check, [build, settle])
    return dag
