"""
One DAG `train.<data set>` per data set whose specification has a `train` part: version → model.

A published interval starts one run, with the interval's name as partition key. The run waits until
all intervals of the training window are published, and adopts a finished job. A run that is
triggered by hand needs the parameter `window_start`, or `tag`: it then trains on exactly the
versions of this tag, those that it names at the first try of the task.

With `train.model` in the specification the run has more tasks: `evaluate` compares the job's
metrics with the gate and publishes the model as its candidate, `approve` asks a person if
`train.model.promote` is `approve`, and `promote` points `prod` to the model, unless
`train.model.promote` is `by_hand`. Every task can be cleared: a job becomes one version of the
model, and is promoted once.

With `train.model.download`, the task `download_model` copies the model that the training starts
from into the publication root; its content belongs to the identity of the job. With
`train.model.upload`, `require_upload` proves before the training that the folder on the store can
be written, and `upload_model` copies the promoted version there (with `by_hand`, the candidate).
"""

from __future__ import annotations

from typing import Any, Final

from airflow.sdk import DAG, BaseOperator, Param, PartitionedAssetTimetable, chain

from dags._defaults import DEFAULT_ARGS, TAGS, TRAINING_LIMIT, dataset_asset
from dags._docs import spec_doc
from dags._params import window_param
from operators.trainings import (
    DownloadModelOperator,
    EvaluateModelOperator,
    PromoteModelOperator,
    RequireUploadOperator,
    TrainingJobOperator,
    UploadModelOperator,
)
from trainfeed.specification import DatasetSpec, ModelSpec

# Runs that wait for their window hold no slot, but count as active: with a low limit, the runs of
# an interval that cannot be built would keep later ones from starting.
MAX_WAITING_RUNS: Final = 100

_TAG: Final[dict[str, Any]] = {
    "type": ["null", "string"],
    "pattern": r"^[a-z][a-z0-9._-]{0,62}(#[0-9]{1,8})?$",
    "title": "Tag",
    "description": "Train on the versions of this tag of the data set, such as prod, or prod#3 as"
    " its third change made it; empty: on the window of intervals.",
}


def train_dag(spec: DatasetSpec) -> DAG:
    """The DAG that trains on the versions of one data set."""
    with DAG(
        dag_id=f"train.{spec.name}",
        description=f"Training on {spec.name}",
        doc_md=spec_doc(spec),
        schedule=PartitionedAssetTimetable(assets=dataset_asset(spec.name)),
        max_active_runs=MAX_WAITING_RUNS,
        params={
            "window_start": window_param(spec, unset="A triggered run needs it, or a tag."),
            "tag": Param(None, **_TAG),
        },
        default_args=DEFAULT_ARGS,
        tags=[*TAGS, spec.name],
    ) as dag:
        model = spec.train.model if spec.train is not None else None
        start = _start_model(spec, model)
        job = TrainingJobOperator(
            task_id="train",
            dataset=spec.name,
            start_model=start.output if start is not None else None,
            execution_timeout=TRAINING_LIMIT,
            max_active_tis_per_dag=spec.resources.max_active_runs,
        )
        if model is not None and model.upload is not None:
            chain(RequireUploadOperator(task_id="require_upload", dataset=spec.name), job)
        if model is not None:
            _promotion(spec, model, job)
    return dag


def _start_model(spec: DatasetSpec, model: ModelSpec | None) -> BaseOperator | None:
    if model is None or model.download is None:
        return None
    return DownloadModelOperator(
        task_id="download_model", dataset=spec.name, execution_timeout=TRAINING_LIMIT
    )


def _promotion(spec: DatasetSpec, model: ModelSpec, job: TrainingJobOperator) -> None:
    """Add the tasks that evaluate, promote and upload the model of a training."""
    evaluate = EvaluateModelOperator(
        task_id="evaluate",
        dataset=spec.name,
        job=job.output,
        execution_timeout=TRAINING_LIMIT,
        max_active_tis_per_dag=spec.resources.max_active_runs,
    )
    chain(job, evaluate)
    if model.promote == "by_hand":
        _upload(spec, model, evaluate)
        return
    approve = _approval(model) if model.promote == "approve" else None
    promote = PromoteModelOperator(
        task_id="promote",
        dataset=spec.name,
        model=evaluate.output,
        answer=None if approve is None else approve.output,
    )
    chain(evaluate, *([] if approve is None else [approve]), promote)
    _upload(spec, model, promote)


def _upload(spec: DatasetSpec, model: ModelSpec, made: BaseOperator) -> None:
    if model.upload is not None:
        UploadModelOperator(
            task_id="upload_model",
            dataset=spec.name,
            model=made.output,
            execution_timeout=TRAINING_LIMIT,
        )


def _approval(model: ModelSpec) -> BaseOperator:
    # Imported here: few DAGs need it, and Airflow parses DAG files every few seconds.
    from airflow.providers.standard.operators.hitl import ApprovalOperator  # noqa: PLC0415

    found = "ti.xcom_pull(task_ids='evaluate')"
    return ApprovalOperator(
        task_id="approve",
        subject=f"Promote {model.name}/{{{{ {found}['version'] }}}}?",
        body=f"Job {{{{ {found}['job'] }}}} passed its gate ({{{{ {found}['gate']['note'] }}}}):"
        f" {{{{ {found}['metrics'] }}}}. The tab Data set of the run shows the gate. Approved, prod"
        f" of {model.name} points to it; rejected, it stays the candidate.",
        # A person may take days; the task holds no slot while it waits.
        execution_timeout=None,
    )
