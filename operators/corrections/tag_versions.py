"""Form of the DAG ``tag`` → a tag of data is given, moved or removed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from operators._connections import environment_from_connections
from operators._outcome import airflow_outcome
from operators._run_request import require_known
from trainfeed.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.dataset import DatasetFolder
    from trainfeed.dataset.tags import Decision, Tag

__all__ = ["TagVersionsOperator"]

logger = logging.getLogger(__name__)


class TagVersionsOperator(BaseOperator):
    """Give, move or remove a tag, in the name of the user who started the run; once per run.

    Returns:
        ``dataset``, ``tag``, ``number`` of the change, ``range``, ``versions``, their number, and
        ``written``, whether this try made the change.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Carry out the action of the form; a task that is cleared finds the change made."""
        from trainfeed.dataset import DatasetFolder, require_writable_root
        from trainfeed.dataset.tags import Decision

        params, run = context["params"], context["dag_run"]
        with airflow_outcome(context):
            require_known(params, *_KNOWN)
            env = environment_from_connections(())
            require_writable_root(env)
            folder = DatasetFolder(Path(env.root), params["dataset"])
            who = getattr(run, "triggering_user_name", None) or f"Airflow run {run.run_id}"
            decision = Decision.now(params["why"], who=who, request=run.run_id)
            tag, is_new = _act(folder, params, decision)
        report = {
            "dataset": folder.name,
            "tag": tag.tag,
            "number": tag.number,
            "range": tag.range,
            "versions": len(tag.versions),
            "written": is_new,
        }
        logger.info("%s", report)
        return report


_KNOWN = ("action", "dataset", "tag", "range", "why", "allow_missing", "verify", "dry_run")


def _act(folder: DatasetFolder, params: dict[str, Any], decision: Decision) -> tuple[Tag, bool]:
    from trainfeed.dataset.tags import apply_change, propose_tag, require_tag, untag

    if params["action"] == "untag":
        if params["range"]:
            raise ConfigError("expected no range beside untag: a tag is removed as a whole")
        if params["dry_run"]:
            return require_tag(folder, params["tag"]), False
        return untag(folder, params["tag"], decision)
    if not params["range"]:
        raise ConfigError("expected a range to tag, such as 2013-01, got none")
    options = {name: params[name] for name in ("allow_missing", "verify")}
    proposal = propose_tag(folder, params["range"], params["tag"], decision, **options)
    for change in proposal.changes:
        logger.info("%(interval)s: from %(from)s to %(to)s", change.to_json())
    return (proposal.after, False) if params["dry_run"] else apply_change(folder, proposal)
