"""Staged shards → proof of completeness and quality."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from operators._stage import StageOperator
from trainfeed.errors import GateError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.pipeline import Build, JsonObject, StageReport

__all__ = ["ASKS", "CheckOperator", "check_or_ask"]

# The verdict of a build that only gates with the severity ``ask`` stop.
ASKS: Final = "asks"


class CheckOperator(StageOperator):
    """Recompute the ledger from the written files, and evaluate the quality gates.

    Args:
        asks: Whether a task follows that asks a person about gates with the severity ``ask``. With
            it, this task succeeds if only such gates stop the build; its verdict is then ``asks``.
    """

    stage: ClassVar = "check"

    def __init__(self, *, asks: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asks = asks

    def execute(self, context: Context) -> JsonObject:
        """Run the stage and return its report; for gates that ask, their message and report."""
        if not self.asks:
            return super().execute(context)
        return self.built(context, self.planned(context), check_or_ask)

    def run_stage(self, build: Build) -> StageReport:
        """Check the staged version."""
        from trainfeed.pipeline.check import check

        return check(build)


def check_or_ask(build: Build) -> JsonObject:
    """Check the staged version; return the report, or what to ask a person.

    Returns:
        The report of the stage; or, with the verdict ``asks``: ``message``, ``report``, and
        ``question``, the gates that ask with limits and values, and the digest of the plan.

    Raises:
        GateError: The ledgers differ, or a gate that blocks failed.
    """
    from trainfeed.pipeline.check import check

    try:
        return check(build).to_json()
    except GateError as error:
        if error.question is None:
            raise
        found = {"report": dict(error.report or {}), "question": dict(error.question)}
        return {"stage": "check", "verdict": ASKS, "message": str(error), **found}
