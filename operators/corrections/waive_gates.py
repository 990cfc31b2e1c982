"""Form of a DAG ``waive.<data set>`` → a waiver of failed gates."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator

from operators._connections import environment_from_connections
from operators._outcome import airflow_outcome
from operators._person import run_person
from operators._run_request import require_known
from operators._told_result import tell_result

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.pipeline.plans import Plan

__all__ = ["WaiveGatesOperator"]

_DAY: Final = len("2013-01-01")


class WaiveGatesOperator(BaseOperator):
    """Waive failed gates of an interval, in the name of the Airflow user who started the run.

    Args:
        dataset: Name of the data set.

    Returns:
        ``waiver``, and ``conf``: the parameters of the run of ``build.<data set>`` that publishes.
    """

    def __init__(self, *, dataset: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset

    def execute(self, context: Context) -> dict[str, Any]:
        """Write the waiver; a task that is cleared finds it written."""
        from trainfeed.dataset import DatasetFolder
        from trainfeed.intervals import parse_time
        from trainfeed.pipeline.waivers import WaiverWish, waivable, waive

        params = context["params"]
        with airflow_outcome(context):
            require_known(params, "interval", "why", "until", "plan", "check", "field")
            person = run_person(context)
            env = environment_from_connections(())
            folder = DatasetFolder(Path(env.root), self.dataset)
            wish = WaiverWish(
                who=person.who,
                account=person.account,
                why=params["why"],
                until=parse_time(params["until"]),
                checks=[params["check"]] if params["check"] else (),
                fields=[params["field"]] if params["field"] else (),
            )
            found = waivable(folder, params["interval"], params["plan"])
            waiver = waive(env, found, wish, datetime.now(UTC))
            told = [f"failed: {line}" for line in found.refused.lines]
            next_run = f"the task build starts build.{self.dataset}, which publishes the version"
            target = f"{self.dataset}/{params['interval']}"
            tell_result(context, target, [f"waived: {waiver.told}", next_run, *told])
        return {"waiver": waiver.to_json(), "conf": _conf(found.plan)}


def _conf(plan: Plan) -> dict[str, Any]:
    """Return the parameters with which a run comes to the same plan."""
    from trainfeed.pipeline.planner import is_replay

    name = plan.interval["name"]
    is_plain = plan.made_by is None
    return {
        "window_start": name if len(name) == _DAY else plan.interval["start"],
        "replay": is_replay(plan),
        "rebuild": plan.rebuild if is_plain else None,
        **({"outdated": "rebuild"} if plan.made_by == "outdated" else {}),
        "allow_gap": next((gap["why"] for gap in plan.gaps if gap.get("why")), None),
    }
