"""Trainings and their models as operators, from the needed model to the alias ``prod``."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from airflow.sdk.exceptions import AirflowFailException

from operators.connections import environment_from_connections
from operators.job_trigger import TrainingJobTrigger
from operators.links import ModelLink, TrainingJobLink
from operators.outcome import Done, FormOperator, airflow_outcome, call_again
from operators.runs import (
    answering_user,
    require_known,
    run_account,
    run_identity,
    run_interval,
    run_person,
    window_request,
)
from operators.stages import DatasetOperator, open_dataset
from trainfeed.errors import ConfigError, WindowIncompleteError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.core.config import Environment
    from trainfeed.core.intervals import Interval
    from trainfeed.pipeline import JsonObject
    from trainfeed.specification import DatasetSpec
    from trainfeed.training.launch import Launched
    from trainfeed.versions import DatasetFolder
    from trainfeed.versions.tag_files import Tag


# --- Folder of ``train.model.upload`` → proof that models can be written there, before a training


class RequireUploadOperator(DatasetOperator):
    """Fail before the training if its model could not be uploaded afterwards.

    Returns:
        ``upload``: the URI of the folder.
    """

    def execute(self, context: Context) -> JsonObject:
        """Make and remove a folder in the folder of the models."""
        from trainfeed.training.transfers import require_upload

        with airflow_outcome(context):
            return require_upload(*open_dataset(self.dataset, transfers=True))


# --- Model on a store → publication root, before a training


class DownloadModelOperator(DatasetOperator):
    """Download the model of ``train.model.download``, or adopt an equal download.

    The task has the store's connection; the ranks of the training see only the folder.

    Returns:
        ``start_model`` (digest of the model's manifest), ``path``, and the report of the transfer.
    """

    def execute(self, context: Context) -> JsonObject:
        """Download the model."""
        from trainfeed.training.transfers import download_start_model

        with airflow_outcome(context):
            return download_start_model(*open_dataset(self.dataset, transfers=True))


# --- Published versions of a training window → training job

logger = logging.getLogger(__name__)

_FIRST_WAIT: Final = timedelta(seconds=5)
_LONGEST_WAIT: Final = timedelta(minutes=5)
_DOUBLINGS: Final = 10  # further ones would only overflow


class TrainingJobOperator(DatasetOperator):
    """Train on the window of intervals that ends with the run's interval, or adopt its job.

    While versions of the window are missing, the task waits without a worker slot, at most
    ``train.wait`` from the start of the run: in a backfill, the event of the third day may come
    before the version of the first day. A local job holds a worker slot while it runs; for a job on
    a cluster the triggerer waits.

    Args:
        start_model: Report of the task ``download_model`` (its XCom); None if the training starts
            from no model.

    Returns:
        The job's report: ``job``, ``verdict``, ``metrics``, ``intervals``, ``seconds``.
    """

    template_fields: Sequence[str] = ("start_model",)

    operator_extra_links = (TrainingJobLink(),)

    def __init__(self, *, start_model: object = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_model = start_model
        self._launched: Launched | None = None
        self._is_killed = False

    def execute(self, context: Context, event: Mapping[str, Any] | None = None) -> JsonObject:
        """Train; wait for the window, or for the job on a cluster, without a worker slot.

        Args:
            context: The task's context.
            event: Event of ``TrainingJobTrigger``; None in the first call.
        """
        self._is_killed = False
        with airflow_outcome(context):
            require_known(context["params"], "window_start", "tag")
            spec, env = open_dataset(self.dataset, trains=True, tracks=True)
            if event is not None:
                self._launched = _adopted(spec, env, event)
                return self._on_cluster(spec, env, self._launched, event["since"])
            return self._first(context, spec, env)

    def on_kill(self) -> None:
        """Cancel the job on a cluster; while the task is deferred, the trigger does so instead.

        A task that is marked after its deferral and before a triggerer has begun with its trigger,
        which takes seconds, is told to neither: ``trainfeed jobs cancel`` ends the job then.
        """
        from trainfeed.training.launch import cancel_launched

        self._is_killed = True
        if self._launched is not None:
            cancel_launched(self._launched)

    def _first(self, context: Context, spec: DatasetSpec, env: Environment) -> JsonObject:
        from trainfeed.training.launch import launch, train
        from trainfeed.versions import DatasetFolder, TrainingMarks

        folder = DatasetFolder(Path(env.root), spec.name)
        tag, interval = _asked(context, spec, folder)
        if tag is None:
            # Marked before any wait: from here on, this run is responsible for the training of the
            # interval.
            TrainingMarks(folder).see(interval.name)
        since = time.time()
        try:
            if spec.train is None or spec.train.is_local:
                return train(spec, env, interval, start_model=self._digest(), tag=tag)
            again, model = self._again(context), self._digest()
            self._launched = launch(spec, env, interval, again=again, start_model=model, tag=tag)
        except WindowIncompleteError as error:
            limit = spec.train.wait if spec.train else timedelta()
            raise _later(error, context, limit) from error
        return self._on_cluster(spec, env, self._launched, since)

    def _on_cluster(
        self, spec: DatasetSpec, env: Environment, launched: Launched, since: float
    ) -> JsonObject:
        from trainfeed.training.launch import cancel_launched, collect, look

        if self._is_killed:  # before there was a job to cancel
            cancel_launched(launched)
        now = look(launched)
        if now.state.is_live:
            logger.info("job %s is %s; %s", launched.job.name, now.state, now.reason)
            trigger = TrainingJobTrigger(
                root=env.root,
                home=str(launched.record.home),
                clusters={name: dict(each) for name, each in env.clusters.items()},
                launch={"verdict": launched.verdict, "since": since},
            )
            self.defer(trigger=trigger, method_name="execute")
        return collect(spec, launched, seconds=time.time() - since)

    def _digest(self) -> str | None:
        found = cast("Mapping[str, Any] | None", self.start_model)
        return None if found is None else str(found["start_model"])

    def _again(self, context: Context) -> str | None:
        """Return the reason for another attempt at a failed job: a person has cleared the task.

        Clearing raises ``max_tries``; Airflow's own retries do not, so they find the same job.
        """
        task = context["ti"]
        if task.max_tries <= (self.retries or 0):
            return None
        return f"task cleared in {context['dag_run'].run_id}, up to try {task.max_tries + 1}"


def _asked(
    context: Context, spec: DatasetSpec, folder: DatasetFolder
) -> tuple[Tag | None, Interval]:
    """Return the tag of the form, as the first try of this run found it, and the interval."""
    from trainfeed.training.tagged import tagged_training

    if not (text := context["params"].get("tag")):
        return None, run_interval(spec, window_request(context))
    if context["params"].get("window_start"):
        raise ConfigError("expected window_start or tag, got both; nothing was started")
    return tagged_training(spec, folder, text, request=run_identity(context))


def _adopted(spec: DatasetSpec, env: Environment, event: Mapping[str, Any]) -> Launched:
    from trainfeed.training.launch import adopted

    return adopted(spec, env, Path(event["home"]), verdict=event["verdict"])


def _later(error: WindowIncompleteError, context: Context, limit: timedelta) -> Exception:
    """Return the exception that makes Airflow call again, or after ``limit`` fail the task."""
    run = context["dag_run"]
    now = datetime.now(UTC)
    deadline = (run.start_date or run.run_after) + limit
    if now >= deadline:
        return AirflowFailException(
            f"{error}; waited until {deadline:%Y-%m-%d %H:%M:%S} UTC, the limit train.wait of"
            " dataset.yaml; clear this task when they are published"
        )
    times = min(context.get("task_reschedule_count", 0), _DOUBLINGS)
    wait = min(_FIRST_WAIT * 2**times, _LONGEST_WAIT)
    logger.info("%s; looking again in %s, giving up at %s", error, wait, deadline)
    return call_again(min(now + wait, deadline))


# --- Finished training job → candidate of its model, if the job passes the gate


class EvaluateModelOperator(DatasetOperator):
    """Compare a job's metrics with the gate of ``train.model``; if they pass, publish its model.

    The files of a job that passes become the next version of the model, once, and ``candidate``
    points to it. A closed gate fails the task, makes no version, and leaves ``prod`` unchanged.

    Args:
        job: Report of the task ``train`` (its XCom).

    Returns:
        ``model``, ``version``, ``path``, ``data``, ``metrics``, ``gate`` and further fields.
    """

    template_fields: Sequence[str] = ("job",)
    operator_extra_links = (ModelLink(),)

    def __init__(self, *, job: object, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job = job

    def execute(self, context: Context) -> JsonObject:
        """Evaluate, and publish the candidate."""
        from trainfeed.training.promotion import evaluate

        with airflow_outcome(context):
            require_known(context["params"], "window_start", "tag")
            spec, env = open_dataset(self.dataset, tracks=True)
            job = cast("Mapping[str, Any]", self.job)
            if context["params"].get("tag"):
                # The job of a tag belongs to the last interval of the tag, not to one of the run.
                interval = str(job["intervals"][-1])
            else:
                interval = run_interval(spec, window_request(context)).name
            return evaluate(spec, env, interval, str(job["job"]))


# --- Candidate of a model → the alias ``prod``

# Verdict → what the log says while ``prod`` points to another version. An unchanged ``prod`` may
# have been given the version before, and have been rolled back: that is not told apart here.
_PROD_IS_ANOTHER: Final = {
    "promoted": "%s was promoted, and meanwhile %s",
    "unchanged": "prod is left as it is, and is not %s: %s",
}


class PromoteModelOperator(DatasetOperator):
    """Point ``prod`` to the model of the run; each job is promoted once.

    Clearing the task does not undo a rollback. If the promotion is automatic, a ``prod`` of a later
    interval stays, too.

    Args:
        model: Report of the task ``evaluate`` (its XCom).
        answer: Answer of the person who approved (XCom of the task ``approve``), whom the history
            names; None for a promotion without a person.

    Returns:
        ``model``, ``version``, ``prod``, ``verdict`` and, if ``prod`` points to another version,
        ``note``.
    """

    template_fields: Sequence[str] = ("model", "answer")
    operator_extra_links = (ModelLink(),)

    def __init__(self, *, model: object, answer: object = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model = model
        self.answer = answer

    def execute(self, context: Context) -> JsonObject:
        """Promote, unless the job was promoted before."""
        from trainfeed.training.promotion import promote

        found = cast("Mapping[str, Any]", self.model)
        job, version = str(found["job"]), str(found["version"])
        with airflow_outcome(context):
            spec, env = open_dataset(self.dataset, tracks=True)
            why = f"job {job} passed its gate: {found['gate'].get('note', '')}"
            who = None if self.answer is None else answering_user(self.answer)
            account = run_account(context)
            report = promote(
                spec, env, version, why, request=f"job {job}", who=who, account=account
            )
        if "note" in report:
            logger.warning(_PROD_IS_ANOTHER[report["verdict"]], version, report["note"])
        return report


# --- Version of a model → its store


class UploadModelOperator(DatasetOperator):
    """Upload the version of the run to the folder of ``train.model.upload``, or adopt an upload.

    Args:
        model: Report of the task ``promote`` or ``evaluate`` (its XCom), with ``version``.

    Returns:
        ``model``, ``version``, and the report of the transfer.
    """

    template_fields: Sequence[str] = ("model",)
    operator_extra_links = (ModelLink(),)

    def __init__(self, *, model: object, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model = model

    def execute(self, context: Context) -> JsonObject:
        """Upload the version."""
        from trainfeed.training.transfers import upload_model

        version = str(cast("Mapping[str, Any]", self.model)["version"])
        with airflow_outcome(context):
            return upload_model(*open_dataset(self.dataset, transfers=True), version)


# --- Form of the DAG ``models`` → the alias ``prod`` of a model


class ChangeProdOperator(FormOperator):
    """Promote a version of a model, or roll ``prod`` back to the previous one; once per run.

    The history of ``prod`` names the Airflow user who started the run.

    Returns:
        ``model``, ``prod``, ``verdict`` (promoted, rolled back or unchanged) and ``path``;
        ``tracking``, how the delivery to a tracking server ended, when there is one; ``upload``,
        the command that uploads the version, when ``train.model.upload`` is set.
    """

    form = ("action", "model", "version", "why")

    def carry_out(self, context: Context) -> Done:
        """Carry out the action of the form."""
        from trainfeed.training.models import PROD, ModelsFolder, parse_version, promote, rollback
        from trainfeed.training.tracking import deliver_change
        from trainfeed.training.transfers import missing_upload
        from trainfeed.versions import require_writable_root

        params = context["params"]
        decision = run_person(context)._asdict()
        env = environment_from_connections(())
        require_writable_root(env)
        folder = ModelsFolder(Path(env.root)).known(params["model"])
        number = None if params["version"] is None else parse_version(params["version"])
        if params["action"] == "rollback":
            change, is_new = rollback(folder, params["why"], expected=number, **decision)
        elif number is None:
            raise ConfigError("expected a version to promote, such as v0003, got none")
        else:
            change, is_new = promote(folder, PROD, number, params["why"], **decision)
        delivered = deliver_change(folder, env.datasets, _with_tracker)
        done = "rolled back" if change.kind == "rollback" else "promoted"
        report = {
            "model": folder.name,
            "prod": change.version,
            "verdict": done if is_new else "unchanged",
            "path": str(folder.version(parse_version(change.version))),
            **({"tracking": delivered} if delivered else {}),
            **missing_upload(folder, env.datasets, change.version),
        }
        logger.info("%s", report)
        made = f"{folder.name}@prod is {change.version}: {report['verdict']}, {change.why}"
        further = (each for each in ("path", "tracking", "upload") if each in report)
        more = [f"{each}: {report[each]}" for each in further]
        return Done(f"{folder.name}@prod", [made, *more], report)


def _with_tracker(connection: str) -> Environment:
    return environment_from_connections((), trackers=[connection])
