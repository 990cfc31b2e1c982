"""Form of the DAG ``models`` → the alias ``prod`` of a model."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from operators._connections import environment_from_connections
from operators._outcome import airflow_outcome
from operators._person import run_person
from operators._run_request import require_known
from operators._told_result import tell_result
from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.config import Environment

__all__ = ["ChangeProdOperator"]

logger = logging.getLogger(__name__)


class ChangeProdOperator(BaseOperator):
    """Promote a version of a model, or roll ``prod`` back to the previous one; once per run.

    The history of ``prod`` names the Airflow user who started the run.

    Returns:
        ``model``, ``prod``, ``verdict`` (promoted, rolled back or unchanged) and ``path``;
        ``tracking``, how the delivery to a tracking server ended, when there is one; ``upload``,
        the command that uploads the version, when ``train.model.upload`` is set.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Carry out the action of the form."""
        from trainfeed.dataset import require_writable_root
        from trainfeed.models import PROD, ModelsFolder, parse_version, promote, rollback
        from trainfeed.tracking import deliver_change
        from trainfeed.training.transfers import missing_upload

        params = context["params"]
        with airflow_outcome(context):
            require_known(params, "action", "model", "version", "why")
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
        tell_result(context, f"{folder.name}@prod", [made, *more])
        return report


def _with_tracker(connection: str) -> Environment:
    return environment_from_connections((), trackers=[connection])
