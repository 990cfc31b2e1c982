"""``waive``: a person lets failed gates of one plan pass, as they were measured.

Only gates can be waived. The proof that no record was lost or doubled cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from trainfeed import faults
from trainfeed.accounts import name_problem, reason_problem
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, require_writable_root
from trainfeed.dataset.waive import Gate, Waiver, is_same_gate, read_waivers, write_waiver
from trainfeed.errors import ConfigError, ConflictError
from trainfeed.intervals import format_time
from trainfeed.pipeline.waivers._waivable import Waivable, next_command, require_unpublished
from trainfeed.specification import gate_name

__all__ = ["WaiverWish", "waive"]

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
