"""Published versions of a training window → training job."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from operators._outcome import airflow_outcome, call_again
from operators._run_request import require_known, run_identity, run_interval, window_request
from operators._stage import open_dataset
from operators.job_trigger import TrainingJobTrigger
from operators.links import TrainingJobLink
from trainfeed.errors import ConfigError, WindowIncompleteError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.config import Environment
    from trainfeed.dataset import DatasetFolder
    from trainfeed.dataset.tag_files import Tag
    from trainfeed.intervals import Interval
    from trainfeed.pipeline import JsonObject
    from trainfeed.specification import DatasetSpec
    from trainfeed.training.launch import Launched

__all__ = ["TrainingJobOperator"]

logger = logging.getLogger(__name__)

_FIRST_WAIT: Final = timedelta(seconds=5)
_LONGEST_WAIT: Final = timedelta(minutes=5)
_DOUBLINGS: Final = 10  # further ones would only overflow


class TrainingJobOperator(BaseOperator):
    """Train on the window of intervals that ends with the run's interval, or adopt its job.

    While versions of the window are missing, the task waits without a worker slot, at most
    ``train.wait`` from the start of the run: in a backfill, the event of the third day may come
    before the version of the first day. A local job holds a worker slot while it runs; for a job on
    a cluster the triggerer waits.

    Args:
        dataset: Name of the data set.
        start_model: Report of the task ``download_model`` (its XCom); None if the training starts
            from no model.

    Returns:
        The job's report: ``job``, ``verdict``, ``metrics``, ``intervals``, ``seconds``.
    """

    template_fields: Sequence[str] = ("start_model",)

    operator_extra_links = (TrainingJobLink(),)

    def __init__(self, *, dataset: str, start_model: object = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.start_model = start_model
        self._launched: Launched | None = None

    def execute(self, context: Context, event: Mapping[str, Any] | None = None) -> JsonObject:
        """Train; wait for the window, or for the job on a cluster, without a worker slot.

        Args:
            context: The task's context.
            event: Event of ``TrainingJobTrigger``; None in the first call.
        """
        with airflow_outcome(context):
            require_known(context["params"], "window_start", "tag")
            spec, env = open_dataset(self.dataset, trains=True, tracks=True)
            if event is not None:
                return self._on_cluster(spec, env, _adopted(spec, env, event), event["since"])
            return self._first(context, spec, env)

    def on_kill(self) -> None:
        """Cancel the job on a cluster; while the task is deferred, the trigger does so instead."""
        from trainfeed.training.launch import cancel_launched

        if self._launched is not None:
            cancel_launched(self._launched)

    def _first(self, context: Context, spec: DatasetSpec, env: Environment) -> JsonObject:
        from trainfeed.dataset import DatasetFolder, TrainingMarks
        from trainfeed.training.launch import launch, train

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
        from trainfeed.training.launch import collect, look

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
