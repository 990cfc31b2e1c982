"""Form of the DAG ``withdraw`` → a version is hidden from readers, or given back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator

from operators._connections import environment_from_connections
from operators._outcome import airflow_outcome
from operators._run_request import require_known
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

    Returns:
        ``action``, ``target``, ``readers_get``: the generation that readers get afterwards or None,
        and ``written``, whether this try changed anything.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Carry out the action of the form; a task that is cleared finds it done."""
        from trainfeed.dataset.layout import generation_name

        params = context["params"]
        with airflow_outcome(context):
            require_known(params, *_KNOWN)
            done = _act(environment_from_connections(()), context, _maker(context))
        gets = None if done.readers_get is None else generation_name(done.readers_get)
        report = {
            "action": params["action"],
            "target": done.mark.name,
            "readers_get": gets,
            "written": done.is_new,
        }
        logger.info("%s", report)
        return report


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
    done = withdraw(*place, move_tags=params["move_tags"], dry_run=params["dry_run"])
    for tag in done.tags:
        logger.warning("tag %s names %s, and opening the tag fails", tag, done.mark.name)
    return done


def _maker(context: Context) -> Maker:
    """Return who decides: the Airflow user of the run.

    Raises:
        ConfigError: Nobody started it: a withdrawal needs a person.
    """
    from trainfeed.withdrawal import Maker

    run = context["dag_run"]
    who = getattr(run, "triggering_user_name", None)
    if not who:
        raise ConfigError(
            "expected a run that a user of Airflow started, got one without a user; nothing was"
            " changed; trigger the DAG withdraw in the interface or by REST"
        )
    return Maker(str(who), f"Airflow run {run.dag_id}/{run.run_id}", context["params"]["why"], True)
