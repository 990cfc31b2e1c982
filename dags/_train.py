"""
One DAG `train.<data set>` per data set whose specification has a `train` part: version → model.

A published interval starts one run, with the interval's name as partition key. The run waits until
all intervals of the training window are published, and adopts a finished job. A run that is
triggered by hand needs the parameter `window_start`.
"""

from __future__ import annotations

from typing import Final

from airflow.sdk import DAG, PartitionedAssetTimetable

from dags._defaults import DEFAULT_ARGS, TAGS, TRAINING_LIMIT, dataset_asset
from dags._docs import spec_doc
from dags._params import window_param
from operators.training_job import TrainingJobOperator
from trainfeed.specification import DatasetSpec

# Runs that wait for their window hold no slot, but they are active: with a low limit, those of an
# interval that cannot be built would keep later ones from starting.
MAX_WAITING_RUNS: Final = 100


def train_dag(spec: DatasetSpec) -> DAG:
    """The DAG that trains on the versions of one data set."""
    with DAG(
        dag_id=f"train.{spec.name}",
        description=f"Training on {spec.name}",
        doc_md=spec_doc(spec),
        schedule=PartitionedAssetTimetable(assets=dataset_asset(spec.name)),
        max_active_runs=MAX_WAITING_RUNS,
        params={"window_start": window_param(spec, unset="A triggered run needs it.")},
        default_args=DEFAULT_ARGS,
        tags=[*TAGS, spec.name],
    ) as dag:
        TrainingJobOperator(
            task_id="train",
            dataset=spec.name,
            execution_timeout=TRAINING_LIMIT,
            max_active_tis_per_dag=spec.resources.max_active_runs,
        )
    return dag
