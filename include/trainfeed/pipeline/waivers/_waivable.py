"""The failed gates of a plan that a person may waive, and what to run afterwards."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from trainfeed.accounts import person
from trainfeed.dataset import DatasetFolder, Manifest, read_unpublished
from trainfeed.dataset.layout import MANIFEST, generation_of_plan
from trainfeed.dataset.waive import Refused, read_refused, read_waivers
from trainfeed.errors import ConfigError, ConflictError, NotFoundError
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.planner import is_replay
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.storage import posix

__all__ = ["Waivable", "next_command", "require_unpublished", "waivable"]


@dataclass(frozen=True)
class Waivable:
    """A plan with failed gates that a person may waive.

    Attributes:
        plan: The plan.
        refused: Its failed gates.
        last: Number of its last waiver; 0 without one.
    """

    plan: Plan
    refused: Refused
    last: int


def waivable(folder: DatasetFolder, interval: str, plan_id: str | None = None) -> Waivable:
    """Return the failed gates of the plan of an interval; nothing is written.

    Args:
        folder: The data set.
        interval: Name of the interval.
        plan_id: The plan; None for the one of the last attempt, or the only one that failed.

    Raises:
        NotFoundError: No gate of a plan failed.
        ConflictError: The plan is published, or was made again since its gates were measured.
        ConfigError: Several plans have failed gates, and none of them is the last attempt's.
        FormatError: A file beside the plan is damaged.
        StorageError: The publication root refused or failed.
    """
    chosen = plan_id or _chosen(folder, interval)
    plan = load_plan(folder, PlanRef(folder.name, interval, chosen))
    require_unpublished(folder, plan)
    refused = read_refused(folder, interval, chosen)
    if refused is None:
        raise NotFoundError(
            f"no gate of plan {chosen} of {folder.name}/{interval} has failed; there is nothing to"
            f" waive; nothing was written; to see the state: trainfeed status {folder.name}"
            f" {interval}"
        )
    if refused.plan_sha256 != plan.sha256():
        raise ConflictError(
            f"plan {chosen} was made again since its gates were measured; nothing was written;"
            f" measure them again: {next_command(plan)}"
        )
    return Waivable(plan, refused, max(read_waivers(folder, interval, chosen), default=0))


def next_command(plan: Plan) -> str:
    """Return the command that builds a plan again."""
    if is_replay(plan):
        return f"trainfeed quarantine replay {plan.dataset}/{plan.interval['name']}"
    name = f"trainfeed build {plan.dataset} --interval {plan.interval['name']}"
    why = next((str(gap["why"]) for gap in plan.gaps if gap.get("why")), None)
    return f"{name}{_rebuild(plan)}{f' --allow-gap {shlex.quote(why)}' if why else ''}"


def _rebuild(plan: Plan) -> str:
    if plan.made_by == "outdated":
        return " --outdated rebuild"
    return f" --rebuild {shlex.quote(plan.rebuild)}" if plan.rebuild else ""


def _chosen(folder: DatasetFolder, interval: str) -> str:
    """Return the plan that a person means who names none."""
    failed = [
        plan_id
        for plan_id in folder.plan_ids(interval)
        if read_refused(folder, interval, plan_id) is not None
        and not _is_published(folder, interval, plan_id)
    ]
    ended = read_unpublished(folder, interval)
    if ended is not None and ended.plan in failed:
        return str(ended.plan)
    if len(failed) > 1:
        raise ConfigError(
            f"{folder.name}/{interval} has several plans with failed gates, {', '.join(failed)},"
            " and none of them is the last attempt; nothing was written; name one with --plan"
        )
    if failed:
        return failed[0]
    raise NotFoundError(
        f"no gate of an unpublished plan of {folder.name}/{interval} has failed; there is nothing"
        f" to waive; nothing was written; to see the state: trainfeed status {folder.name}"
        f" {interval}"
    )


def _is_published(folder: DatasetFolder, interval: str, plan_id: str) -> bool:
    number = generation_of_plan(plan_id)
    with posix.map_errors(folder.interval(interval)):
        return (folder.version(interval, number) / MANIFEST).is_file() or folder.is_removed(
            interval, number
        )


def require_unpublished(folder: DatasetFolder, plan: Plan) -> None:
    """Refuse a plan whose generation is published.

    Raises:
        ConflictError: It is; the message has the plan, and who waived its gates.
    """
    interval = plan.interval["name"]
    if not _is_published(folder, interval, plan.plan_id):
        return
    path = Path(folder.version(interval, plan.generation))
    by = "and removed since"
    if (path / MANIFEST).is_file():
        manifest, _ = Manifest.read(path)
        whose = "this plan" if manifest.plan == plan.plan_id else f"plan {manifest.plan}"
        told = "; ".join(
            f"{person(each['who'], each['account'])}: {each['why']}" for each in manifest.waivers
        )
        by = f"by {whose}" + (f", with the waiver of {told}" if told else "")
    raise ConflictError(
        f"{folder.name}/{interval}/{path.name} is published {by}; a waiver has no effect on it;"
        f" to see it: trainfeed show {folder.name}/{interval}/{path.name}"
    )
