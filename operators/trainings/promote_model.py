"""Candidate of a model → the alias ``prod``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import BaseOperator

from operators._outcome import airflow_outcome
from operators._person import answering_user, run_account
from operators._stage import open_dataset
from operators.links import ModelLink

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.pipeline import JsonObject

__all__ = ["PromoteModelOperator"]

logger = logging.getLogger(__name__)


class PromoteModelOperator(BaseOperator):
    """Point ``prod`` to the model of the run; each job is promoted once.

    Clearing the task does not undo a rollback. If the promotion is automatic, a ``prod`` of a later
    interval stays, too.

    Args:
        dataset: Name of the data set.
        model: Report of the task ``evaluate`` (its XCom).
        answer: Answer of the person who approved (XCom of the task ``approve``), whom the history
            names; None for a promotion without a person.

    Returns:
        ``model``, ``version``, ``prod``, ``verdict`` and, if ``prod`` points to another version,
        ``note``.
    """

    template_fields: Sequence[str] = ("model", "answer")
    operator_extra_links = (ModelLink(),)

    def __init__(
        self, *, dataset: str, model: object, answer: object = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
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
            logger.warning("%s was not promoted: %s", version, report["note"])
        return report
