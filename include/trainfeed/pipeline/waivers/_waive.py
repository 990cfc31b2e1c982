"""``waive``: a person lets failed gates of one plan pass, as they were measured.

Only gates can be waived. The proof that no record was lost or doubled cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from trainfeed import faults
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Manifest, read_unpublished, require_writable_root
from trainfeed.dataset.layout import MANIFEST
from trainfeed.dataset.waivers import (
    Gate,
    Refused,
    Waiver,
    read_refused,
    read_waivers,
    write_waiver,
)
from trainfeed.errors import ConfigError, ConflictError, NotFoundError
from trainfeed.intervals import format_time
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.storage import posix

__all__ = ["Waivable", "WaiverWish", "next_command", "waivable", "waive"]

_MOST_CHARS: Final = 500
_LEAST_CHARS: Final = 3
# Longer than any repair takes; after it a person must look again.
_LONGEST: Final = timedelta(days=366)


@dataclass(frozen=True)
class WaiverWish:
    """The decision of a person.

    Attributes:
        who: The person.
        account: The account, or the run of a scheduler, that acts for the person.
        why: The reason, 3 to 500 characters.
        until: The last moment at which ``check`` lets the plan pass; aware, at most a year ahead.
        checks: Only gates with one of these checks; empty for all failed gates.
        fields: Only gates of one of these fields; empty for all.
    """

    who: str
    account: str
    why: str
    until: datetime
    checks: Sequence[str] = field(default=())
    fields: Sequence[str] = field(default=())


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
    _require_unpublished(folder, plan)
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


def waive(env: Environment, found: Waivable, wish: WaiverWish, now: datetime) -> Waiver:
    """Write a waiver of failed gates that a person has seen.

    Args:
        env: Folders and connections.
        found: What ``waivable`` returned, and the person saw.
        wish: The decision.
        now: The aware time.

    Raises:
        ConfigError: The decision is incomplete, its time is over, or it is about no failed gate.
        ConflictError: The gates are waived already, another person was faster, or the plan was
            published meanwhile; the message has who and why.
        FormatError: A file beside the plan is damaged.
        StorageError: The publication root refused or failed.
    """
    require_writable_root(env)
    folder = DatasetFolder(Path(env.root), found.plan.dataset)
    _require_complete(wish, now)
    gates = tuple(gate for gate in found.refused.gates if _is_meant(gate, wish))
    if not gates:
        names = ", ".join(sorted({str(gate["check"]) for gate in found.refused.gates}))
        raise ConfigError(
            f"expected a gate that failed ({names}), got checks {list(wish.checks)} and fields"
            f" {list(wish.fields)}; nothing was written"
        )
    plan, interval = found.plan, found.plan.interval["name"]
    _require_open(folder, found, gates, now)
    waiver = Waiver(
        plan=plan.plan_id,
        who=wish.who,
        account=wish.account,
        why=wish.why.strip(),
        until=format_time(wish.until),
        at=format_time(now.replace(microsecond=0)),
        gates=gates,
    )
    faults.point("waiver.before_write")
    write_waiver(folder, interval, waiver, found.last + 1)
    faults.point("waiver.after_write")
    _require_unpublished(folder, plan)
    return waiver


def next_command(plan: Plan) -> str:
    """Return the command that builds a plan again."""
    name = f"trainfeed build {plan.dataset} --interval {plan.interval['name']}"
    rebuild = f" --rebuild {_quoted(plan.rebuild)}" if plan.rebuild else ""
    why = next((str(gap["why"]) for gap in plan.gaps if gap.get("why")), None)
    return f"{name}{rebuild}{f' --allow-gap {_quoted(why)}' if why else ''}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


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
    number = int(plan_id.rpartition("-g")[2])
    with posix.map_errors(folder.interval(interval)):
        return (folder.version(interval, number) / MANIFEST).is_file() or folder.is_removed(
            interval, number
        )


def _require_unpublished(folder: DatasetFolder, plan: Plan) -> None:
    interval = plan.interval["name"]
    if not _is_published(folder, interval, plan.plan_id):
        return
    path = Path(folder.version(interval, plan.generation))
    by = "and removed since"
    if (path / MANIFEST).is_file():
        manifest, _ = Manifest.read(path)
        whose = "this plan" if manifest.plan == plan.plan_id else f"plan {manifest.plan}"
        told = "; ".join(f"{each['who']}: {each['why']}" for each in manifest.waivers)
        by = f"by {whose}" + (f", with the waiver of {told}" if told else "")
    raise ConflictError(
        f"{folder.name}/{interval}/{path.name} is published {by}; a waiver has no effect on it;"
        f" to see it: trainfeed show {folder.name}/{interval}/{path.name}"
    )


def _require_complete(wish: WaiverWish, now: datetime) -> None:
    for name, text in (("who", wish.who), ("account", wish.account), ("why", wish.why)):
        size = len(text.strip())
        least = _LEAST_CHARS if name == "why" else 1
        if not (least <= size <= _MOST_CHARS and text.isprintable()):
            raise ConfigError(
                f"expected {name} of {least} to {_MOST_CHARS} printable characters on one line, got"
                f" {text[:80]!r}; nothing was written"
            )
    until = format_time(wish.until)
    if not now < wish.until <= now + _LONGEST:
        raise ConfigError(
            f"expected an end of the waiver after now, {format_time(now.replace(microsecond=0))},"
            f" and within a year, got {until}; nothing was written"
        )


def _is_meant(gate: Gate, wish: WaiverWish) -> bool:
    return (not wish.checks or gate["check"] in wish.checks) and (
        not wish.fields or gate.get("field") in wish.fields
    )


def _require_open(
    folder: DatasetFolder, found: Waivable, gates: Sequence[Gate], now: datetime
) -> None:
    """Refuse a waiver of gates that are all waived already."""
    plan = found.plan
    known = read_waivers(folder, plan.interval["name"], plan.plan_id).values()
    holding = [waiver for waiver in known if waiver.holds_at(now)]
    covering = [next((each for each in holding if each.covers(gate)), None) for gate in gates]
    first = covering[0]
    if first is not None and all(covering):
        raise ConflictError(
            f"the failed gates of plan {plan.plan_id} are waived already by {first.told}; nothing"
            f" was written; go on: {next_command(plan)}"
        )
