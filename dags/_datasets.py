"""The DAGs of a data set, and of the data sets whose share of all a DAG file makes.

Airflow has a time limit for each file, and drops all DAGs of a file that exceeds it or raises. Each
file therefore makes the DAGs of an eighth of the data sets, and reads no other specifications.
Errors in specifications are raised by separate files, which make no DAGs: ``_shares.py``.
"""

from __future__ import annotations

from typing import Any, Final, cast

from airflow.sdk import (
    DAG,
    BaseOperator,
    Param,
    PartitionedAssetTimetable,
    chain,
    get_parsing_context,
)

from dags._defaults import (
    ANSWER_LIMIT,
    DEFAULT_ARGS,
    MAPPED_LIMIT,
    MAX_TASKS_OF_RUN,
    TAGS,
    TRAINING_LIMIT,
    active_runs,
    asks,
    dataset_asset,
    task_limits,
    uploads_asset,
)
from dags._docs import spec_doc
from dags._forms import INTERVAL_PATTERN, build_params, interval_param, why_param, window_param
from dags._shares import folders_of, share_of
from operators.connections import datasets_folder
from operators.corrections import WaiveGatesOperator
from operators.logs_complete import LogsCompleteSensor
from operators.stages import (
    CheckOperator,
    KafkaToHdfsOperator,
    PlanIntervalOperator,
    PreprocessOperator,
    RecordIOToCephFSOperator,
    SamplesToRecordIOOperator,
)
from operators.timetable import BEFORE_ALL, IntervalTimetable
from operators.trainings import (
    DownloadModelOperator,
    EvaluateModelOperator,
    PromoteModelOperator,
    RequireUploadOperator,
    TrainingJobOperator,
    UploadModelOperator,
)
from operators.uploads import CheckUploadsOperator, SettleUploadsOperator
from trainfeed.specification import DatasetSpec, ModelSpec, load_spec, spec_or_error

# --- Source → published version

UNIT_LABEL: Final = "unit {{ task.unit }}"


def build_dag(spec: DatasetSpec) -> DAG:
    """
    One DAG `build.<data set>` per folder of `include/datasets`: source → published version.

    A run builds one interval of the data set's schedule: the interval of the parameter
    `window_start`, or without it the data interval of the run. For a triggered run with a logical
    date that is the last interval that had ended by then. A run for a time without an interval
    fails in its first task, and the error names that time. Runs of the schedule are named after
    their interval, and every run has the interval as its note, unless it has a note already. With
    `preprocess.engine: spark` one task `spark` is in the place of the mapped tasks `preprocess` and
    `convert`. If a gate of the data set has the severity `ask`, there is a task `ask` before
    `publish`: skipped unless such a gate fails, it waits up to seven days for a person, whose
    approval is recorded as a waiver. The task `publish` emits an event of the asset
    `trainfeed://<data set>` with the interval's name as partition key, also if the version was
    published before. Published intervals that no training has seen, for instance because
    `train.<data set>` was paused, get an event, too, so that no training is missed.
    """
    with DAG(
        dag_id=f"build.{spec.name}",
        description=spec.description or None,
        doc_md=spec_doc(spec),
        schedule=IntervalTimetable(spec.schedule_model()),
        start_date=BEFORE_ALL,
        catchup=spec.catchup,
        max_active_runs=active_runs(spec),
        max_active_tasks=MAX_TASKS_OF_RUN,
        params=build_params(spec),
        default_args=DEFAULT_ARGS,
        tags=[*TAGS, spec.name],
    ) as dag:
        _stages(spec)
    return dag


def _ask(spec: DatasetSpec, plan: PlanIntervalOperator, check: CheckOperator) -> BaseOperator:
    # Imported here: few DAGs need it, and Airflow parses DAG files every few seconds.
    from operators.ask_waiver import ANSWER_FORM, AskWaiverOperator  # noqa: PLC0415

    return AskWaiverOperator(
        task_id="ask",
        dataset=spec.name,
        plan=plan.plan,
        checked=check.output,
        params=dict(ANSWER_FORM),
        # The task holds no slot while it waits.
        response_timeout=ANSWER_LIMIT,
        execution_timeout=None,
    )


def _on_spark(**arguments: Any) -> BaseOperator:
    # Imported here: few DAGs need it, and Airflow parses DAG files every few seconds.
    from operators.spark import BuildOnSparkOperator  # noqa: PLC0415

    return BuildOnSparkOperator(task_id="spark", execution_timeout=MAPPED_LIMIT, **arguments)


def _stages(spec: DatasetSpec) -> None:
    source_pool = spec.resources.pool or "default_pool"
    limits = task_limits(spec)
    plan = PlanIntervalOperator(
        task_id="plan",
        dataset=spec.name,
        trains=spec.train is not None,
        chooses=bool(spec.preprocess.parameters),
        pool=source_pool,
        **limits,
    )
    of_plan: dict[str, Any] = {"dataset": spec.name, "plan": plan.plan}
    of_unit = {
        **of_plan,
        **task_limits(spec, is_mapped=True),
        "execution_timeout": MAPPED_LIMIT,
        "map_index_template": UNIT_LABEL,
    }
    of_plan |= limits
    ingest = KafkaToHdfsOperator.partial(task_id="ingest", pool=source_pool, **of_unit)
    # Without landing, ``preprocess`` reads the source itself, and so needs the pool of the source.
    lands = all(source.kind.lands for source in spec.all_parts)
    preprocess_pool = "default_pool" if lands else source_pool
    made: list[Any] = [ingest.expand(unit=plan.output)]
    if spec.preprocess.engine == "spark":
        made.append(_on_spark(pool=preprocess_pool, **of_plan))
    else:
        preprocess = PreprocessOperator.partial(
            task_id="preprocess", pool=preprocess_pool, **of_unit
        )
        convert = SamplesToRecordIOOperator.partial(task_id="convert", **of_unit)
        made += [stage.expand(unit=plan.output) for stage in (preprocess, convert)]
    is_asked = asks(spec)
    check = CheckOperator(task_id="check", asks=is_asked, **of_plan)
    ask = [_ask(spec, plan, check)] if is_asked else []
    publish = RecordIOToCephFSOperator(
        task_id="publish",
        training_dag_id=f"train.{spec.name}" if spec.train else None,
        outlets=[dataset_asset(spec.name)],
        # The task ``ask`` is skipped when no gate asks.
        trigger_rule="none_failed_min_one_success" if is_asked else "all_success",
        **of_plan,
    )
    chain(plan, *made, check, *ask, publish)
    if any(source.kind.folder_wait is not None for source in spec.all_parts):
        chain(LogsCompleteSensor(task_id="wait_for_logs", dataset=spec.name), plan)


# --- Version → model

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
    """
    One DAG `train.<data set>` per data set whose specification has a `train` part: version → model.

    A published interval starts one run, with the interval's name as partition key. The run waits
    until all intervals of the training window are published, and adopts a finished job. A run that
    is triggered by hand needs the parameter `window_start`, or `tag`: it then trains on exactly the
    versions of this tag, those that it names at the first try of the task.

    With `train.model` in the specification the run has more tasks: `evaluate` compares the job's
    metrics with the gate and publishes the model as its candidate, `approve` asks a person if
    `train.model.promote` is `approve`, and `promote` points `prod` to the model, unless
    `train.model.promote` is `by_hand`. Every task can be cleared: a job becomes one version of the
    model, and is promoted once.

    With `train.model.download`, the task `download_model` copies the model that the training starts
    from into the publication root; its content belongs to the identity of the job. With
    `train.model.upload`, `require_upload` proves before the training that the folder on the store
    can be written, and `upload_model` copies the promoted version there (with `by_hand`, the
    candidate).
    """
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


# --- Labels → builds

# An interval lasts an hour or a day, so a quarter of an hour delays no build by much. A look that
# finds no new file costs one task of some seconds. A trigger by hand looks at once.
SCHEDULE: Final = "*/15 * * * *"


def uploads_dag(spec: DatasetSpec) -> DAG:
    """
    One DAG `uploads.<data set>` per data set whose specification has a part `uploads`: labels →
    builds.

    Every 15 minutes `check` looks for new files in `uploads` below the data set; a look without new
    files reads none, and skips the other tasks. New receipts make one event of the asset
    `trainfeed://<data set>/uploads`: numbers and names of the receipts, number of rows, and
    intervals. `build` starts `build.<data set>` for closed intervals that are not published; their
    runs are named `uploads__<interval>__<number of the newest receipt>`. A published interval keeps
    its version: the log names it, and a run of `build.<data set>` with the parameter `rebuild`
    takes the newer uploads. `settle` fails as long as a refused file is there, after all others
    were taken.
    """
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


# --- Failed gates → a waiver, and another build

_OPTIONAL: Final[dict[str, Any]] = {"type": ["null", "string"], "pattern": INTERVAL_PATTERN}


def waive_dag(spec: DatasetSpec) -> DAG:
    """
    One DAG `waive.<data set>` per data set: lets failed gates of a build pass, and builds again.

    The form asks for the interval, the reason, and the end of the waiver's time. The waiver is
    about the gates that failed, with the values that they have now; the page of the failed run
    shows them. Its `who` is the Airflow user who starts this run. The second task starts
    `build.<data set>` for the interval: there only `check` and `publish` do work. Who may waive
    gates of a data set is decided by the rights to start this DAG. The command `trainfeed waive`
    does the same.
    """
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


# --- The DAGs of a share of the data sets

_KINDS: Final = ("build", "train", "uploads", "waive")


def make_dags(share: int) -> None:
    """Make the DAGs of a share, in order of names, without those of wrong specifications.

    A task parses its file again at its start, for its own DAG: then only that DAG is made.
    """
    wanted = get_parsing_context().dag_id
    if wanted is None:
        for spec in map(spec_or_error, folders_of(share)):
            if isinstance(spec, DatasetSpec):
                _make(spec, *_KINDS)
        return
    kind, _, name = wanted.partition(".")
    if kind in _KINDS and name and share_of(name) == share:
        _make(load_spec(datasets_folder() / name), kind)


def _make(spec: DatasetSpec, *kinds: str) -> None:
    if "build" in kinds:
        build_dag(spec)
    if "train" in kinds and spec.train is not None:
        train_dag(spec)
    if "uploads" in kinds and spec.uploads is not None:
        uploads_dag(spec)
    if "waive" in kinds:
        # Also without gates in the specification: a change of the schema may stop a build, too.
        waive_dag(spec)
