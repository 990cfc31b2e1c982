"""
The DAG `outdated`: reports the versions that today's code, specification, lookups or uploads would
build otherwise, and compares every published interval with its source: changed or vanished log
files, replaced topics, records that retention has deleted, late records.

Nothing is built or changed. The log of the task has the report, and so has its XCom. Outdated
versions do not fail the run; a data set that cannot be compared does. To bring intervals forward,
backfill `build.<data set>` with the parameter `outdated: rebuild`, or run
`trainfeed bring-forward`. The command `trainfeed outdated --against-source` does the same.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from dags._defaults import DEFAULT_ARGS, MAPPED_LIMIT, TAGS
from operators.timetable import BEFORE_ALL
from operators.upkeep import FindOutdatedOperator

with DAG(
    dag_id="outdated",
    description="Versions that today's code would build otherwise, and sources that changed",
    doc_md=__doc__,
    schedule="@daily",
    start_date=BEFORE_ALL,
    catchup=False,
    max_active_runs=1,
    # Paused at first: with every published interval a source is asked, which is a load of its own.
    is_paused_upon_creation=True,
    params={
        "against_source": Param(
            True,
            type="boolean",
            title="Against the source",
            description="Also ask the source about every published interval. Without it the report"
            " comes from the publication root alone, in seconds.",
        ),
    },
    default_args=DEFAULT_ARGS,
    tags=[*TAGS],
) as dag:
    FindOutdatedOperator(task_id="compare", execution_timeout=MAPPED_LIMIT)
