"""
The DAG `housekeeping`: removes what killed and abandoned builds and launches left behind.

These are unfinished files, and staging folders and work files of builds that were never published,
if they were not modified for three days. Versions, plans and landed records stay. A run that is
cleared later does not find its files, and has to be triggered again. The command `trainfeed gc`
does the same.

Code and services that launches of trainings left on a cluster are removed three days after the
launch began, if its job was never made, or has ended.

The task `shared_storage` compares the quota and the namespace of each home with what was given to
it: Ceph lets every key that reads a folder remove the namespace. The task fails with the names of
what is gone; `trainfeed pfs user add` puts it back. It needs the mount of an administrator, and is
skipped without one.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from dags._defaults import DEFAULT_ARGS, TAGS
from dags._forms import dry_run_param
from operators.timetable import BEFORE_ALL
from operators.upkeep import HousekeepingOperator, SharedStorageOperator

with DAG(
    dag_id="housekeeping",
    description="Leftovers of killed and abandoned builds; attributes of homes that are gone",
    doc_md=__doc__,
    schedule="@daily",
    start_date=BEFORE_ALL,
    catchup=False,
    max_active_runs=1,
    # Paused at first: an installation switches the DAG on; a trial of trainfeed does not need it.
    is_paused_upon_creation=True,
    params={
        "older_than": Param(
            72,
            type="integer",
            minimum=24,
            title="Older than, in hours",
            description="Files that were modified later stay. A build that pauses for longer"
            " loses its work files.",
        ),
        "mount": Param(
            None,
            type=["null", "string"],
            title="Mount of shared storage",
            description="Folder of the workers on which the root of the CephFS is mounted with an"
            " administrator's key; empty if there are no homes.",
        ),
        "datacenter": Param(
            None,
            type=["null", "string"],
            title="Data centre",
            description="Name of the data centre whose homes are looked at.",
        ),
        "dry_run": dry_run_param("Only log what would be removed."),
    },
    default_args=DEFAULT_ARGS,
    tags=[*TAGS],
) as dag:
    HousekeepingOperator(task_id="sweep")
    SharedStorageOperator(task_id="shared_storage")
