"""Form of the DAG ``withdraw`` → a version is hidden from readers, or given back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from operators._connections import environment_from_connections
from operators._outcome import airflow_outcome
from operators._person import run_person
from operators._run_request import require_known
from operators._told_result import tell_result
from operators.corrections._known_folder import known_folder
from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.config import Environment
    from trainfeed.withdrawal import Maker, Restored, Withdrawn

__all__ = ["WithdrawVersionOperator"]

logger = logging.getLogger(__name__)

_KNOWN: Final = ("action", "dataset", "interval", "generation", "why", "move_tags", "dry_run")


class WithdrawVersionOperator(BaseOperator):
    """Withdraw or restore a version, in the name of the Airflow user who started the run.

    A tag that cannot be read or moved after the withdrawal fails the task; the withdrawal stands.

    Returns:
        ``action``, ``target``, ``readers_get``: the generation that readers get afterwards or None,
        and ``written``, whether this try changed anything.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Carry out the action of the form; a task that is cleared finds it done."""
        from trainfeed.withdrawal import Maker, Withdrawn, restored_lines, withdrawn_lines

        params = context["params"]
        with airflow_outcome(context):
            require_known(params, *_KNOWN)
            person = run_person(context)
            env = environment_from_connections(())
            known_folder(env, params["dataset"])
            maker = Maker(person.who, person.account, params["why"], person.request)
            done = _act(env, context, maker)
            report = _report(params["action"], done)
            logger.info("%s", report)
            dry_run = params["dry_run"]
            if isinstance(done, Withdrawn):
                tell_result(context, done.mark.name, withdrawn_lines(done, dry_run=dry_run))
                _refuse_problems(done, dry_run=dry_run)
            else:
                tell_result(context, done.mark.name, restored_lines(done, dry_run=dry_run))
        return report


def _report(action: str, done: Withdrawn | Restored) -> dict[str, Any]:
    from trainfeed.dataset.layout import generation_name

    return {
        "action": action,
        "target": done.mark.name,
        "readers_get": None if done.readers_get is None else generation_name(done.readers_get),
        "written": done.is_new,
    }


def _act(env: Environment, context: Context, maker: Maker) -> Withdrawn | Restored:
    from trainfeed.dataset.layout import parse_generation
    from trainfeed.withdrawal import restore, withdraw

    params = context["params"]
    number = None if params["generation"] is None else parse_generation(params["generation"])
    place = (env, params["dataset"], params["interval"], number, maker)
    if params["action"] == "restore":
        if params["move_tags"]:
            raise ConfigError("expected no tags to move beside restore; nothing was changed")
        # A task that is cleared later takes no withdrawal back that its run did not know.
        asked_at = context["dag_run"].run_after
        return restore(*place, dry_run=params["dry_run"], asked_at=asked_at)
    return withdraw(*place, move_tags=params["move_tags"], dry_run=params["dry_run"])


def _refuse_problems(done: Withdrawn, *, dry_run: bool) -> None:
    """Fail the task of a withdrawal that stands, for tags.

    Raises:
        AirflowFailException: A tag cannot be read, or could not be moved.
    """
    if not done.tag_problems:
        return
    state = "would be withdrawn" if dry_run else "is withdrawn, which stands"
    told = "; ".join(f"tag {each.tag}: {each.error}" for each in done.tag_problems)
    raise AirflowFailException(
        f"{done.mark.name} {state}; not all tags could be read or moved: {told}; when that is"
        " mended, clear this task: it does the rest"
    )
