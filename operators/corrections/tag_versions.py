"""Form of the DAG ``tag`` → a tag of data is given, moved or removed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator

from operators._connections import environment_from_connections
from operators._outcome import airflow_outcome
from operators._person import run_person
from operators._run_request import require_known
from operators.corrections._known_folder import known_folder
from trainfeed.errors import ConfigError, ConflictError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.dataset import DatasetFolder
    from trainfeed.dataset.tags import Decision, Tag

__all__ = ["TagVersionsOperator"]

logger = logging.getLogger(__name__)

_KNOWN: Final = ("action", "dataset", "tag", "range", "why", "allow_missing", "verify", "dry_run")


class TagVersionsOperator(BaseOperator):
    """Give, move or remove a tag, in the name of the user who started the run; once per run.

    Returns:
        ``dataset``, ``tag``, ``number`` of the change, ``range``, ``versions``, their number, and
        ``written``, whether this try made the change.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Carry out the action of the form; a task that is cleared finds the change made."""
        from trainfeed.dataset.tags import Decision

        params = context["params"]
        with airflow_outcome(context):
            require_known(params, *_KNOWN)
            folder = known_folder(environment_from_connections(()), params["dataset"])
            _require_one_wish(params)
            decision = Decision.now(params["why"], **run_person(context)._asdict())
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
        if not (is_new or params["dry_run"]):
            logger.info("nothing was written: change %d of the tag is as asked for", tag.number)
        return report


def _require_one_wish(params: dict[str, Any]) -> None:
    if params["action"] == "untag" and params["range"]:
        raise ConfigError("expected no range beside untag: a tag is removed as a whole")
    if params["action"] == "tag" and not params["range"]:
        raise ConfigError("expected a range to tag, such as 2013-01, got none")


def _act(folder: DatasetFolder, params: dict[str, Any], decision: Decision) -> tuple[Tag, bool]:
    from trainfeed.dataset.tags import apply_change, propose_tag, require_tag, untag

    if (earlier := _made(folder, params, decision)) is not None:
        return earlier, False
    if params["action"] == "untag":
        if params["dry_run"]:
            return require_tag(folder, params["tag"]), False
        return untag(folder, params["tag"], decision)
    options = {name: params[name] for name in ("allow_missing", "verify")}
    proposal = propose_tag(folder, params["range"], params["tag"], decision, **options)
    for change in proposal.changes:
        logger.info("%(interval)s: from %(from)s to %(to)s", change.to_json())
    return (proposal.after, False) if params["dry_run"] else apply_change(folder, proposal)


def _made(folder: DatasetFolder, params: dict[str, Any], decision: Decision) -> Tag | None:
    """Return the change that this run has made before.

    Raises:
        ConflictError: The run was asked for something else then.
    """
    from trainfeed.dataset.tags import change_of_request

    made = change_of_request(folder, params["tag"], str(decision.request))
    if made is None:
        return None
    asked = (params["action"], decision.why)
    if asked != (made.kind, made.decision.why) or not _may_be_of(made, params["range"]):
        raise ConflictError(
            f"this run has made change {made.number} of tag {folder.name}@{made.tag}: {made.kind}"
            f" {made.range}, by {made.told}; it is asked for something else now; nothing was"
            " changed; start a new run"
        )
    return made


def _may_be_of(made: Tag, asked: str | None) -> bool:
    """Return whether a change may have been made for a range of the form, None for ``untag``."""
    from trainfeed.dataset.layout import is_generation

    # What ``@next`` names may be of another range now.
    if asked is None or asked.startswith("@"):
        return True
    interval, _, generation = asked.rpartition("/")
    if interval and is_generation(generation):
        return [each.name for each in made.versions] == [asked]
    return asked == made.range
