"""Waivers of failed gates: which may be waived, ``waive``, and the work that is kept for them."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from trainfeed.core import faults
from trainfeed.core.accounts import name_problem, person, reason_problem
from trainfeed.core.canonical_json import JsonFields
from trainfeed.core.config import Environment
from trainfeed.core.intervals import format_time
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
)
from trainfeed.files.stores import posix
from trainfeed.pipeline.functions.account import RecordAccount
from trainfeed.pipeline.planner.replay import is_replay
from trainfeed.pipeline.plans import Plan, PlannedShard, load_plan
from trainfeed.pipeline.reports import PlanRef
from trainfeed.pipeline.sorting.spill_files import ArrowWithTrailer
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version import ShardPart
from trainfeed.specification import gate_name
from trainfeed.versions import DatasetFolder, Manifest, read_unpublished, require_writable_root
from trainfeed.versions.layout import MANIFEST, generation_of_plan
from trainfeed.versions.manifest import ShardEntry
from trainfeed.versions.state_folder import decide
from trainfeed.versions.waive import (
    Gate,
    Refused,
    Waiver,
    is_same_gate,
    read_refused,
    read_waiver,
    read_waivers,
    waiver_numbers,
    write_waiver,
)

# --- Work files of a plan that ``check`` refused: a later build of the plan does not make them

logger = logging.getLogger(__name__)


def kept_account(stage: Stage, unit: int, *, alone: bool = False) -> RecordAccount | None:
    """Return the account of a task of ``preprocess`` whose files are kept; None if it must run.

    Args:
        stage: The stage.
        unit: Number of the task.
        alone: Whether the account does without samples, because all shards are kept, too.
    """
    used = [] if stage.spec.uploads is None else [stage.labels_file, stage.used_labels_file(unit)]
    files = [stage.quarantine_file(unit), *used]
    if not _was_measured(stage) or not all(file.exists() for file in files):
        return None
    try:
        with closing(ArrowWithTrailer(stage.spill_file(unit))) as spill:
            if not alone and not spill.has_samples:
                return None
            return RecordAccount.from_json(spill.trailer)
    except (FormatError, NotFoundError) as error:
        logger.warning("preprocess runs again, its samples cannot be used: %s", error)
        return None


def kept_shards(stage: Stage, shards: Sequence[PlannedShard]) -> list[ShardEntry] | None:
    """Return the entries of the shards of a task of ``convert`` that are kept; None otherwise."""
    if not _was_measured(stage):
        return None
    try:
        return [_entry(stage, shard) for shard in shards]
    except (FormatError, NotFoundError) as error:
        logger.warning("convert runs again, its shards cannot be used: %s", error)
        return None


def _was_measured(stage: Stage) -> bool:
    ref = stage.plan.ref()
    refused = read_refused(stage.folder, ref.interval, ref.plan_id)
    return refused is not None and refused.plan_sha256 == stage.plan_sha256


def _entry(stage: Stage, shard: PlannedShard) -> ShardEntry:
    with closing(ArrowWithTrailer(stage.part_file(shard))) as file:
        entry = ShardPart.from_json(file.trailer).entry
    path = stage.staged / entry.name
    with posix.map_errors(path):
        num_bytes = path.stat().st_size
    if num_bytes != entry.bytes:
        raise FormatError(f"expected {entry.bytes} bytes, got {num_bytes}", path=str(path))
    return entry


# --- The failed gates of a plan that a person may waive, and what to run afterwards


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


# --- ``waive``: a person lets failed gates of one plan pass, as they were measured

# Longer than any repair takes; after it a person must look again.
_LONGEST: Final = timedelta(days=366)


@dataclass(frozen=True)
class WaiverWish:
    """The decision of a person.

    Attributes:
        who: The person.
        account: The account, or the run of a scheduler, that acts for the person.
        why: The reason, 3 to 500 characters.
        until: The last moment at which ``check`` lets the plan pass; aware, at most a year ahead,
            cut to seconds.
        checks: Only gates with one of these checks; empty for all failed gates.
        fields: Only gates of one of these fields; empty for all.
        gates: Exactly these gates, with limits and values, as the person saw them; None for those
            of ``checks`` and ``fields``.
    """

    who: str
    account: str
    why: str
    until: datetime
    checks: Sequence[str] = field(default=())
    fields: Sequence[str] = field(default=())
    gates: Sequence[Gate] | None = None


def waive(env: Environment, found: Waivable, wish: WaiverWish, now: datetime) -> Waiver:
    """Write a waiver of failed gates that a person has seen; once, also if it is called again.

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
    return decide(folder, "waive", partial(_write_waiver, folder, found, wish, now))


def _write_waiver(
    folder: DatasetFolder, found: Waivable, wish: WaiverWish, now: datetime
) -> Waiver:
    _require_complete(wish, now)
    gates = _meant(found, wish)
    plan, interval = found.plan, found.plan.interval["name"]
    waiver = Waiver(
        plan=plan.plan_id,
        who=wish.who,
        account=wish.account,
        why=wish.why.strip(),
        until=format_time(wish.until.replace(microsecond=0)),
        at=format_time(now.replace(microsecond=0)),
        gates=gates,
    )
    known = _holding(folder, found, gates, now)
    if known is not None and replace(known, at=waiver.at) == waiver:
        return known
    if known is not None:
        raise ConflictError(
            f"the failed gates of plan {plan.plan_id} are waived already by {known.told}; nothing"
            f" was written; go on: {next_command(plan)}"
        )
    faults.point("waiver.before_write")
    write_waiver(folder, interval, waiver, found.last + 1)
    faults.point("waiver.after_write")
    require_unpublished(folder, plan)
    return waiver


def _require_complete(wish: WaiverWish, now: datetime) -> None:
    problems = (
        name_problem("who", wish.who),
        name_problem("account", wish.account),
        reason_problem(wish.why),
    )
    for problem in filter(None, problems):
        raise ConfigError(f"{problem}; nothing was written")
    until = format_time(wish.until)
    if not now < wish.until.replace(microsecond=0) <= now + _LONGEST:
        raise ConfigError(
            f"expected an end of the waiver after now, {format_time(now.replace(microsecond=0))},"
            f" and within a year, got {until}; nothing was written"
        )


def _meant(found: Waivable, wish: WaiverWish) -> tuple[Gate, ...]:
    failed = found.refused.gates
    if wish.gates is None:
        gates = tuple(gate for gate in failed if _is_meant(gate, wish))
    else:
        is_known = all(any(is_same_gate(gate, each) for each in failed) for gate in wish.gates)
        gates = tuple(wish.gates) if is_known else ()
    if not gates:
        names = ", ".join(sorted({str(gate["check"]) for gate in failed}))
        wanted = f"checks {list(wish.checks)} and fields {list(wish.fields)}"
        if wish.gates is not None:
            wanted = ", ".join(map(gate_name, wish.gates)) + " with other limits or values"
        raise ConfigError(
            f"expected a gate that failed ({names}), got {wanted}; nothing was written"
        )
    return gates


def _is_meant(gate: Gate, wish: WaiverWish) -> bool:
    fields = {gate.get("field"), *(gate.get("by") or ())}
    return (not wish.checks or gate["check"] in wish.checks) and (
        not wish.fields or not fields.isdisjoint(wish.fields)
    )


def _holding(
    folder: DatasetFolder, found: Waivable, gates: Sequence[Gate], now: datetime
) -> Waiver | None:
    """Return the first of the waivers by which all these gates pass already, or None."""
    plan = found.plan
    known = read_waivers(folder, plan.interval["name"], plan.plan_id).values()
    holding = [waiver for waiver in known if waiver.holds_at(now)]
    covering = [next((each for each in holding if each.covers(gate)), None) for gate in gates]
    return covering[0] if all(covering) else None


# --- The waivers of a data set with what became of each, for people who look through them

State = Literal["used", "holds", "over", "unused"]


@dataclass(frozen=True)
class WaiverState(JsonFields):
    """A waiver, and what became of it.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        number: Number among the waivers of its plan.
        state: ``used`` by a published version, ``unused`` if the plan's generation was published
            without it, ``holds``, or ``over``.
        generation: The published generation of the plan, or None.
        waiver: The waiver.
    """

    dataset: str
    interval: str
    number: int
    state: State
    generation: str | None
    waiver: Waiver


@dataclass(frozen=True)
class UnreadWaiver:
    """A waiver that could not be read.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        plan: Id of the plan.
        number: Number among the waivers of the plan.
        error: ``FormatError`` for a damaged waiver or manifest of its version,
            ``AccessDeniedError`` for one that is closed to this account.
    """

    dataset: str
    interval: str
    plan: str
    number: int
    error: FormatError | AccessDeniedError

    @property
    def is_damaged(self) -> bool:
        """Whether a file is damaged."""
        return isinstance(self.error, FormatError)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that commands print."""
        return {**vars(self), "error": str(self.error)}


def waiver_states(
    folder: DatasetFolder, now: datetime, interval: str | None = None
) -> Iterator[WaiverState | UnreadWaiver]:
    """Yield the waivers of a data set, or of one interval, by interval, plan and number.

    Args:
        folder: The data set.
        now: The aware time.
        interval: Name of the interval, or None for all.

    Raises:
        StorageError: The publication root refused or failed.
    """
    for name in folder.planned_intervals() if interval is None else [interval]:
        for plan_id in folder.plan_ids(name):
            for number in waiver_numbers(folder, name, plan_id):
                try:
                    waiver = read_waiver(folder, name, plan_id, number)
                    state, generation = _state(folder, name, waiver, now)
                except (FormatError, AccessDeniedError) as error:
                    yield UnreadWaiver(folder.name, name, plan_id, number, error)
                else:
                    yield WaiverState(folder.name, name, number, state, generation, waiver)


def _state(
    folder: DatasetFolder, interval: str, waiver: Waiver, now: datetime
) -> tuple[State, str | None]:
    path = folder.version(interval, generation_of_plan(waiver.plan))
    with posix.map_errors(path):
        is_published = (path / MANIFEST).is_file()
    if not is_published:
        return ("holds" if waiver.holds_at(now) else "over"), None
    manifest, _ = Manifest.read(path)
    mine = {"who": waiver.who, "why": waiver.why, "until": waiver.until, "at": waiver.at}
    is_used = manifest.plan == waiver.plan and any(
        mine == {name: each.get(name) for name in mine} for each in manifest.waivers
    )
    return ("used" if is_used else "unused"), path.name
