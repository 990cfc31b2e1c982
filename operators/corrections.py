"""Forms of corrections that people ask for: repair, retire, tag, waive, withdraw."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException

from operators.connections import datasets_folder, environment_from_connections
from operators.outcome import Done, FormOperator
from operators.runs import run_person
from operators.stages import open_dataset
from trainfeed.errors import ConfigError, ConflictError, NotFoundError
from trainfeed.files import listed
from trainfeed.specification import SPEC_FILE, did_you_mean

if TYPE_CHECKING:
    from airflow.sdk import Context

    from trainfeed.core.accounts import Decision
    from trainfeed.core.config import Environment
    from trainfeed.pipeline.plans import Plan
    from trainfeed.upkeep.repair import RepairReport
    from trainfeed.upkeep.retention import Retired
    from trainfeed.upkeep.withdrawal import Maker, Restored, Withdrawn
    from trainfeed.versions import DatasetFolder
    from trainfeed.versions.tag import TagChange
    from trainfeed.versions.tag_files import Tag


# --- The folder of a data set that a form names: known, or an error with the nearest name


def known_folder(env: Environment, name: str) -> DatasetFolder:
    """Return the folder of a data set that has a version or a specification.

    Raises:
        RootError: The publication root was not made by ``trainfeed init``.
        NotFoundError: The data set is unknown; the message has the nearest name.
    """
    from trainfeed.versions import DatasetFolder, require_writable_root
    from trainfeed.versions.root import data_sets_of

    require_writable_root(env)
    known = sorted({*specified_names(), *data_sets_of(Path(env.root))})
    if name not in known:
        raise NotFoundError(
            f"expected a data set of {datasets_folder()} or {env.root}, got {name!r}; nothing was"
            f" read or changed; {did_you_mean(name, known)}"
        )
    return DatasetFolder(Path(env.root), name)


def specified_names() -> list[str]:
    """Return the names of the data sets with a specification, sorted."""
    places = listed(datasets_folder())
    return sorted(place.name for place in places if (place / SPEC_FILE).is_file())


# --- Form of the DAG ``repair`` → damaged files of a version become what they were


class RepairVersionOperator(FormOperator):
    """Repair a version, or in a dry run show its damage; what cannot be repaired fails the task.

    Returns:
        ``version``, ``is_whole``, ``recomputed``, and ``num_files``: the number of findings; the
        log has each of them.
    """

    form = ("dataset", "interval", "generation", "why", "copy_from", "dry_run")

    def carry_out(self, context: Context) -> Done:
        """Repair the version; a task that is cleared finds what is still damaged."""
        from trainfeed.upkeep.repair import RepairWish, repair
        from trainfeed.versions.layout import parse_generation

        params = context["params"]
        spec, env = open_dataset(params["dataset"])
        named, backup = params["generation"], params["copy_from"]
        person = run_person(context)
        wish = RepairWish(
            why=params["why"] or None,
            who=person.who,
            account=person.account,
            dry_run=params["dry_run"],
            backup=Path(backup) if backup else None,
        )
        generation = parse_generation(named) if named else None
        report = repair(spec, env, params["interval"], generation, wish)
        failure = None
        if not (report.is_whole or report.dry_run):
            failure = AirflowFailException(
                f"{report.version} is still damaged; the result says why, and what can be done"
            )
        return Done(report.version, _repair_lines(report), _repair_counts(report), failure)


def _repair_lines(report: RepairReport) -> list[str]:
    """Return the result, then what was found in each file and what came of it."""
    return [_repair_result(report), *_damaged_files(report), *report.offers]


def _repair_result(report: RepairReport) -> str:
    if not report.files:
        return f"{report.version} is intact"
    if report.dry_run:
        return f"{report.version} is damaged: {len(report.files)} files; nothing was changed"
    return f"{report.version} is {'intact again' if report.is_whole else 'still damaged'}"


def _damaged_files(report: RepairReport) -> Iterator[str]:
    for each in report.files:
        found = each.finding
        yield f"{found.name} ({found.kind}, {found.what}): {each.outcome}: {each.how}"


def _repair_counts(report: RepairReport) -> dict[str, Any]:
    """Return the report without its files, because an XCom is a row of a database."""
    found = report.to_json()
    return {
        "num_files": len(report.files),
        **{name: found[name] for name in ("version", "dry_run", "is_whole", "recomputed")},
    }


# --- Form of the DAG ``retire`` → the intervals of a range are removed for good

logger = logging.getLogger(__name__)


class RetireIntervalsOperator(FormOperator):
    """Retire a range, in the name of the Airflow user who started the run.

    Returns:
        ``intervals`` and ``bytes`` that went or would go, ``already``: the number of intervals that
        were retired before, and ``dry_run``.
    """

    form = ("dataset", "range", "why", "dry_run")

    def carry_out(self, context: Context) -> Done:
        """Retire the intervals; a task that is cleared completes what a killed one began."""
        from trainfeed.upkeep.retention import Context as Retention
        from trainfeed.upkeep.retention import retire, retire_advice, retired_lines

        params = context["params"]
        name, asked = params["dataset"], params["range"]
        person = run_person(context)
        retention = Retention.of(*open_dataset(name), who=person.who, account=person.account)
        done = retire(retention, asked, params["why"], dry_run=params["dry_run"])
        _log(done)
        failure = None
        if done.refused:
            failure = ConflictError(
                f"{len(done.refused)} of the intervals of {asked} cannot be retired, the result"
                " names each with the reason; nothing was changed;"
                f" {retire_advice(name, done.refused)}"
            )
        report = {
            "intervals": len(done.intervals),
            "bytes": done.removals.num_bytes,
            "already": len(done.already),
            "dry_run": done.dry_run,
        }
        return Done(f"{name}/{asked}", retired_lines(name, asked, done), report, failure)


def _log(done: Retired) -> None:
    verb = "would remove" if done.dry_run else "removed"
    for expired in done.removals.expired:
        item = expired.item
        logger.info("%s %s %s, %d bytes", verb, item.kind, item.name, item.num_bytes)


# --- Form of the DAG ``tag`` → a tag of data is given, moved or removed


class TagVersionsOperator(FormOperator):
    """Give, move or remove a tag, in the name of the user who started the run; once per run.

    Returns:
        ``dataset``, ``tag``, ``number`` of the change, ``range``, ``versions``, their number, and
        ``written``, whether this try made the change.
    """

    form = ("action", "dataset", "tag", "range", "why", "allow_missing", "verify", "dry_run")

    def carry_out(self, context: Context) -> Done:
        """Carry out the action of the form; a task that is cleared finds the change made."""
        from trainfeed.core.accounts import Decision

        params = context["params"]
        folder = known_folder(environment_from_connections(()), params["dataset"])
        _require_one_wish(params)
        decision = Decision.now(params["why"], **run_person(context)._asdict())
        tag, is_new, changes = _change_tag(folder, params, decision)
        report = {
            "dataset": folder.name,
            "tag": tag.tag,
            "number": tag.number,
            "range": tag.range,
            "versions": len(tag.versions),
            "written": is_new,
        }
        logger.info("%s", report)
        result = _tag_result(folder.name, tag, params, is_new=is_new)
        return Done(f"{folder.name}@{tag.tag}", [result, *changes], report)


def _require_one_wish(params: dict[str, Any]) -> None:
    if params["action"] == "untag" and params["range"]:
        raise ConfigError("expected no range beside untag: a tag is removed as a whole")
    if params["action"] == "tag" and not params["range"]:
        raise ConfigError("expected a range to tag: an interval, a month, or FIRST/LAST; got none")


def _tag_result(name: str, tag: Tag, params: dict[str, Any], *, is_new: bool) -> str:
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


def _change_tag(
    folder: DatasetFolder, params: dict[str, Any], decision: Decision
) -> tuple[Tag, bool, list[str]]:
    """Carry out the action; return the tag, whether it changed, and a line for each change."""
    from trainfeed.versions.tag import apply_change, propose_tag, untag
    from trainfeed.versions.tag_files import require_tag

    if (earlier := _tag_of_request(folder, params, decision)) is not None:
        return earlier, False, []
    if params["action"] == "untag":
        if params["dry_run"]:
            return require_tag(folder, params["tag"]), False, []
        return *untag(folder, params["tag"], decision), []
    options = {name: params[name] for name in ("allow_missing", "verify")}
    proposal = propose_tag(folder, params["range"], params["tag"], decision, **options)
    changes = [_change_line(change) for change in proposal.changes]
    if params["dry_run"]:
        return proposal.after, False, changes
    return *apply_change(folder, proposal), changes


def _change_line(change: TagChange) -> str:
    made = change.to_json()
    return f"{made['interval']}: from {made['from'] or 'nothing'} to {made['to'] or 'nothing'}"


def _tag_of_request(
    folder: DatasetFolder, params: dict[str, Any], decision: Decision
) -> Tag | None:
    """Return the change that this run has made before.

    Raises:
        ConflictError: The run was asked for something else then.
    """
    from trainfeed.versions.tag_files import change_of_request

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
    from trainfeed.versions.layout import is_generation

    # What ``@next`` names may be of another range now.
    if asked is None or asked.startswith("@"):
        return True
    interval, _, generation = asked.rpartition("/")
    if interval and is_generation(generation):
        return [each.name for each in made.versions] == [asked]
    return asked == made.range


# --- Form of a DAG ``waive.<data set>`` → a waiver of failed gates

_DAY: Final = len("2013-01-01")


class WaiveGatesOperator(FormOperator):
    """Waive failed gates of an interval, in the name of the Airflow user who started the run.

    Args:
        dataset: Name of the data set.

    Returns:
        ``waiver``, and ``conf``: the parameters of the run of ``build.<data set>`` that publishes.
    """

    form = ("interval", "why", "until", "plan", "check", "field")

    def __init__(self, *, dataset: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset

    def carry_out(self, context: Context) -> Done:
        """Write the waiver; a task that is cleared finds it written."""
        from trainfeed.core.intervals import parse_time
        from trainfeed.pipeline.waivers import WaiverWish, waivable, waive
        from trainfeed.versions import DatasetFolder

        params = context["params"]
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
        lines = [
            f"waived: {waiver.told}",
            f"the task build starts build.{self.dataset}, which publishes the version",
            *(f"failed: {line}" for line in found.refused.lines),
        ]
        report = {"waiver": waiver.to_json(), "conf": _conf(found.plan)}
        return Done(f"{self.dataset}/{params['interval']}", lines, report)


def _conf(plan: Plan) -> dict[str, Any]:
    """Return the parameters with which a run comes to the same plan."""
    from trainfeed.pipeline.planner.replay import is_replay

    name = plan.interval["name"]
    is_plain = plan.made_by is None
    return {
        "window_start": name if len(name) == _DAY else plan.interval["start"],
        "replay": is_replay(plan),
        "rebuild": plan.rebuild if is_plain else None,
        **({"outdated": "rebuild"} if plan.made_by == "outdated" else {}),
        "allow_gap": next((gap["why"] for gap in plan.gaps if gap.get("why")), None),
    }


# --- Form of the DAG ``withdraw`` → a version is hidden from readers, or given back


class WithdrawVersionOperator(FormOperator):
    """Withdraw or restore a version, in the name of the Airflow user who started the run.

    A tag that cannot be read or moved after the withdrawal fails the task; the withdrawal stands.

    Returns:
        ``action``, ``target``, ``readers_get``: the generation that readers get afterwards or None,
        and ``written``, whether this try changed anything.
    """

    form = ("action", "dataset", "interval", "generation", "why", "move_tags", "dry_run")

    def carry_out(self, context: Context) -> Done:
        """Carry out the action of the form; a task that is cleared finds it done."""
        from trainfeed.upkeep.withdrawal import Maker, Withdrawn, restored_lines, withdrawn_lines

        params = context["params"]
        person = run_person(context)
        env = environment_from_connections(())
        known_folder(env, params["dataset"])
        maker = Maker(person.who, person.account, params["why"], person.request)
        done = _change_withdrawal(env, context, maker)
        report = _report(params["action"], done)
        logger.info("%s", report)
        dry_run = params["dry_run"]
        if isinstance(done, Withdrawn):
            lines, failure = withdrawn_lines(done, dry_run=dry_run), _problems(done, dry_run)
            return Done(done.mark.name, lines, report, failure)
        return Done(done.mark.name, restored_lines(done, dry_run=dry_run), report)


def _report(action: str, done: Withdrawn | Restored) -> dict[str, Any]:
    from trainfeed.versions.layout import generation_name

    return {
        "action": action,
        "target": done.mark.name,
        "readers_get": None if done.readers_get is None else generation_name(done.readers_get),
        "written": done.is_new,
    }


def _change_withdrawal(env: Environment, context: Context, maker: Maker) -> Withdrawn | Restored:
    from trainfeed.upkeep.withdrawal import restore, withdraw
    from trainfeed.versions.layout import parse_generation

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


def _problems(done: Withdrawn, dry_run: bool) -> AirflowFailException | None:
    """Return the failure of a withdrawal that stands: a tag cannot be read, or was not moved."""
    if not done.tag_problems:
        return None
    state = "would be withdrawn" if dry_run else "is withdrawn, which stands"
    tags = "; ".join(f"tag {each.tag}: {each.error}" for each in done.tag_problems)
    return AirflowFailException(
        f"{done.mark.name} {state}; not all tags could be read or moved: {tags}; when that is"
        " mended, clear this task: it does the rest"
    )
