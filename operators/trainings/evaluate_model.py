"""Finished training job → candidate of its model, if the job passes the gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import BaseOperator

from operators._outcome import airflow_outcome
from operators._run_request import require_known, run_interval, window_request
from operators._stage import open_dataset
from operators.links import ModelLink

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.pipeline import JsonObject

__all__ = ["EvaluateModelOperator"]


class EvaluateModelOperator(BaseOperator):
    """Compare a job's metrics with the gate of ``train.model``; if they pass, publish its model.

    The files of a job that passes become the next version of the model, once, and ``candidate``
    points to it. A closed gate fails the task, makes no version, and leaves ``prod`` unchanged.

    Args:
        dataset: Name of the data set.
        job: Report of the task ``train`` (its XCom).

    Returns:
        ``model``, ``version``, ``path``, ``data``, ``metrics``, ``gate`` and further fields.
    """

    template_fields: Sequence[str] = ("job",)
    operator_extra_links = (ModelLink(),)

    def __init__(self, *, dataset: str, job: object, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
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
