"""Form of the DAG ``tag`` → a tag of data is given, moved or removed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator

from operators._connections import environment_from_connections
from operators._outcome import airflow_outcome
from operators._person import run_person
from operators._run_request import require_known
from operators._told_result import tell_result
from operators.corrections._known_folder import known_folder
from trainfeed.errors import ConfigError, ConflictError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.dataset import DatasetFolder
    from trainfeed.dataset.tag import TagChange
    from trainfeed.dataset.tag_files import Decision, Tag

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
        from trainfeed.dataset.tag_files import Decision

        params = context["params"]
        with airflow_outcome(context):
            require_known(params, *_KNOWN)
            folder = known_folder(environment_from_connections(()), params["dataset"])
            _require_one_wish(params)
            decision = Decision.now(params["why"], **run_person(context)._asdict())
            tag, is_new, changes = _act(folder, params, decision)
        report = {
            "dataset": folder.name,
            "tag": tag.tag,
            "number": tag.number,
            "range": tag.range,
            "versions": len(tag.versions),
            "written": is_new,
        }
        logger.info("%s", report)
        result = _result(folder.name, tag, params, is_new=is_new)
        tell_result(context, f"{folder.name}@{tag.tag}", [result, *changes])
        return report


def _require_one_wish(params: dict[str, Any]) -> None:
    if params["action"] == "untag" and params["range"]:
        raise ConfigError("expected no range beside untag: a tag is removed as a whole")
    if params["action"] == "tag" and not params["range"]:
        raise ConfigError("expected a range to tag: an interval, a month, or FIRST/LAST; got none")


def _result(name: str, tag: Tag, params: dict[str, Any], *, is_new: bool) -> str:
    """Return what came of the action, in one sentence."""
    named = f"{name}@{tag.tag}"
    what = f"{len(tag.versions)} versions of {tag.range}"
    if params["action"] == "untag":
        if params["dry_run"]:
            return f"{named} would be removed; it names {what}; nothing was changed"
        return f"{named} {'is' if is_new else 'was'} removed by {tag.told}"
    if is_new:
        return f"{named} is change {tag.number}: {what}"
    if params["dry_run"]:
        return f"{named} would name {what}; nothing was changed"
    return f"nothing was written: change {tag.number} of {named} is as asked for: {what}"


def _act(
    folder: DatasetFolder, params: dict[str, Any], decision: Decision
) -> tuple[Tag, bool, list[str]]:
    """Carry out the action; return the tag, whether it changed, and a line for each change."""
    from trainfeed.dataset.tag import apply_change, propose_tag, untag
    from trainfeed.dataset.tag_files import require_tag

    if (earlier := _made(folder, params, decision)) is not None:
        return earlier, False, []
    if params["action"] == "untag":
        if params["dry_run"]:
            return require_tag(folder, params["tag"]), False, []
        return *untag(folder, params["tag"], decision), []
    options = {name: params[name] for name in ("allow_missing", "verify")}
    proposal = propose_tag(folder, params["range"], params["tag"], decision, **options)
    changes = [_told_change(change) for change in proposal.changes]
    if params["dry_run"]:
        return proposal.after, False, changes
    return *apply_change(folder, proposal), changes


def _told_change(change: TagChange) -> str:
    told = change.to_json()
    return f"{told['interval']}: from {told['from'] or 'nothing'} to {told['to'] or 'nothing'}"


def _made(folder: DatasetFolder, params: dict[str, Any], decision: Decision) -> Tag | None:
    """Return the change that this run has made before.

    Raises:
        ConflictError: The run was asked for something else then.
    """
    from trainfeed.dataset.tag_files import change_of_request

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
