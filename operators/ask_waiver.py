"""Gates that ask → a person's answer in Airflow → waiver, and the verdict of the build."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowSkipException

from operators.outcome import airflow_outcome
from operators.runs import answering_user, run_account
from operators.stages import ASKS, StageOperator, check_or_ask, open_dataset
from trainfeed.errors import ConflictError, GateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from trainfeed.core.config import Environment
    from trainfeed.pipeline import Build, JsonObject, PlanRef
    from trainfeed.versions import DatasetFolder


logger = logging.getLogger(__name__)

_DAYS: Final = 7
_MOST_DAYS: Final = 90
ANSWER_FORM: Final = {
    "why": Param(
        None,
        type=["null", "string"],
        minLength=3,
        maxLength=500,
        title="Why",
        description="The reason, which the manifest of the version keeps. An approval needs one.",
    ),
    "days": Param(
        _DAYS,
        type="integer",
        minimum=1,
        maximum=_MOST_DAYS,
        title="Days",
        description="For so many days the build passes by this approval.",
    ),
}


class AskWaiverOperator(StageOperator, ApprovalOperator):
    """Ask a person whether a build passes although gates with the severity ``ask`` failed.

    The task is skipped if no gate asks. Approved, the answer becomes a waiver with the name of the
    Airflow user, of exactly the gates in the question, and ``check`` judges again; rejected or not
    answered, the task fails for good. An approval without a reason is asked again, until it has
    one. If the plan was made again since the question, an answer waives nothing.

    Args:
        checked: Report of the task ``check`` (its XCom).
        params: ``ANSWER_FORM``, the form of the answer. Airflow adds the parameters of the DAG to
            this argument, so that it cannot be set here.

    Returns:
        The report of ``check``.
    """

    template_fields: Sequence[str] = ("plan", "checked")
    stage: ClassVar = "check"

    def __init__(self, *, checked: object, **kwargs: Any) -> None:
        super().__init__(
            subject="Publish although gates ask?",
            fail_on_reject=True,
            # Without an answer in time Airflow answers so, and the task can say what happened.
            defaults=ApprovalOperator.REJECT,
            **kwargs,
        )
        self.checked = checked

    def execute(self, context: Context) -> JsonObject:
        """Ask, unless no gate asks, or all that ask are waived meanwhile."""
        planned = self.planned(context)
        if cast("Mapping[str, object]", self.checked).get("verdict") != ASKS:
            raise AirflowSkipException("no gate asks")
        found = self.built(context, planned, check_or_ask)
        if found["verdict"] != ASKS:
            return found
        with airflow_outcome(context):
            if not _is_same(cast("Mapping[str, Any]", found["question"]), self._question):
                raise _asked_otherwise(planned.ref)
        self._write_question(planned.ref)
        return cast("JsonObject", HITLOperator.execute(self, context))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> JsonObject:
        """Take the answer of the person, or its absence."""
        from trainfeed.core.accounts import reason_problem
        from trainfeed.pipeline.run_stage import recorded_end
        from trainfeed.versions import DatasetFolder

        planned = self.planned(context)
        ref = planned.ref
        problem = reason_problem(str((event.get("params_input") or {}).get("why") or ""))
        if event.get("chosen_options") == [self.APPROVE] and problem:
            logger.warning(
                "%s approved; %s; the question is asked again", answering_user(event), problem
            )
            self._write_question(ref)
            HITLOperator.execute(self, context)
        with airflow_outcome(context):
            _, env = open_dataset(self.dataset)
            folder = DatasetFolder(Path(env.root), ref.dataset)
            with recorded_end(folder, ref.interval, "ask", ref.plan_id):
                self._answered(context, event, env, folder, ref)
        return self.built(context, planned, lambda build: self.run_stage(build).to_json())

    def run_stage(self, build: Build) -> Any:
        """Check the staged version again; now gates that ask must be waived."""
        from trainfeed.pipeline.check import check

        return check(build)

    @property
    def _question(self) -> Mapping[str, Any]:
        """The gates that ask, as the task ``check`` measured them, and the digest of the plan."""
        return cast("Mapping[str, Any]", self.checked).get("question") or {}

    def _write_question(self, ref: PlanRef) -> None:
        message = str(cast("Mapping[str, Any]", self.checked)["message"])
        # Set here and not by a template: values of gates may come from records.
        self.subject = f"Publish {ref.dataset}/{ref.interval} although gates ask?"
        self.body = (
            "Approved with a reason, the build is published with a waiver of exactly these"
            " values; rejected, the run fails and nothing is published.\n\n"
            + "\n".join(f"    {line}" for line in message.splitlines())
        )
        self._tell_waiting(ref, message)

    def _tell_waiting(self, ref: PlanRef, message: str) -> None:
        """Have ``trainfeed status`` say that a person is asked."""
        from trainfeed.core.intervals import format_time
        from trainfeed.core.printable_text import printable
        from trainfeed.versions import DatasetFolder, Unpublished, write_unpublished

        _, env = open_dataset(self.dataset)
        first, *_ = message.splitlines()
        now = datetime.now(UTC).replace(microsecond=0)
        why = f"a person is asked in Airflow: {printable(first)}"[:1_000]
        waiting = Unpublished(
            ref.interval, format_time(now), "ask", ref.plan_id, "waiting", "GateError", why
        )
        write_unpublished(DatasetFolder(Path(env.root), ref.dataset), waiting)

    def _answered(
        self,
        context: Context,
        event: dict[str, Any],
        env: Environment,
        folder: DatasetFolder,
        ref: PlanRef,
    ) -> None:
        """Write the waiver of an approval.

        Raises:
            GateError: The person rejected, nobody answered in time, or the plan was made again
                since the question.
        """
        name = f"{ref.dataset}/{ref.interval}"
        who = answering_user(event)
        try:
            answer = ApprovalOperator.execute_complete(self, context, event)
        except HITLRejectException:
            why = (event.get("params_input") or {}).get("why")
            said = f"{who} rejected it{f': {why}' if why else ''}"
            if event.get("timedout"):
                said = f"nobody answered within {self.response_timeout}"
            raise GateError(
                f"{name} is not published: gates ask, and {said}; nothing was published, work files"
                f" are kept; to be asked again: clear the task {self.task_id}; or: trainfeed waive"
                f" {name} --plan {ref.plan_id} --why WHY --until TIME"
            ) from None
        self._waive(env, folder, ref, who, answer["params_input"], run_account(context))

    def _waive(
        self,
        env: Environment,
        folder: DatasetFolder,
        ref: PlanRef,
        who: str,
        form: Mapping[str, Any],
        account: str,
    ) -> None:
        from trainfeed.pipeline.plans import load_plan
        from trainfeed.pipeline.waivers import WaiverWish, waivable, waive

        if load_plan(folder, ref).sha256() != self._question.get("plan_sha256"):
            raise _asked_otherwise(ref)
        now = datetime.now(UTC).replace(microsecond=0)
        wish = WaiverWish(
            who=who,
            account=account,
            why=str(form["why"]),
            until=now + timedelta(days=int(form.get("days") or _DAYS)),
            gates=self._question["gates"],
        )
        try:
            waive(env, waivable(folder, ref.interval, ref.plan_id), wish, now)
        except ConflictError as known:
            # Waived by another person meanwhile, or published: ``check`` looks at what is there.
            logger.warning("the answer of %s was not needed: %s", who, known)


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two questions are about the same plan and gates, whatever their words."""
    from trainfeed.versions.waive import is_same_gate

    gates = one["gates"], other.get("gates", ())
    return (
        one["plan_sha256"] == other.get("plan_sha256")
        and len(gates[0]) == len(gates[1])
        and all(map(is_same_gate, *gates))
    )


def _asked_otherwise(ref: PlanRef) -> GateError:
    return GateError(
        f"{ref.dataset}/{ref.interval} is not published: its gates were measured again, or waived,"
        " since the question was made; nothing was waived or published, work files are kept; to be"
        " asked about what failed now: clear the task check with the tasks after it"
    )
