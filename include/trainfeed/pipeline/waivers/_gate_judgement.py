"""The judgement of ``check``: which failed gates of a plan are waived, and which still stop it.

The first ``check`` that lets a plan pass decides for all attempts: the manifest is a function of
the plan and of that decision, whatever the clock says later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from trainfeed import faults
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.waive import (
    Applied,
    Gate,
    Refused,
    Waiver,
    apply_waivers,
    is_same_gate,
    read_applied,
    read_waivers,
    write_refused,
)
from trainfeed.errors import FormatError, TrainFeedError
from trainfeed.pipeline._ref import PlanRef
from trainfeed.pipeline.gates import Counts, broken, line
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.version import Verdict, refusal
from trainfeed.specification import gate_name, shown_number

__all__ = ["Judgement", "judge", "judged"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Judgement:
    """What became of the failed gates of a plan.

    Attributes:
        waivers: The waivers by which the plan passes; empty if it does not, or needs none.
        open: Failed gates that no waiver lets pass.
        notes: Why waivers of the plan do not: their time is over, or they are about other values.
    """

    waivers: tuple[Applied, ...] = ()
    open: tuple[Gate, ...] = ()
    notes: tuple[str, ...] = ()


def judge(folder: DatasetFolder, ref: PlanRef, gates: Sequence[Gate], now: datetime) -> Judgement:
    """Judge the failed gates of a plan.

    Args:
        folder: The data set.
        ref: The plan.
        gates: Its failed gates that block or ask, as a manifest has them.
        now: The aware time at which waivers must hold; without effect once a ``check`` passed.

    Raises:
        FormatError: A waiver is damaged.
        StorageError: The publication root refused or failed.
    """
    if not gates:
        return Judgement()
    applied = read_applied(folder, ref.interval, ref.plan_id, gates)
    waivers = read_waivers(folder, ref.interval, ref.plan_id)
    if applied is not None:
        _require_there(folder, ref, applied, waivers.values())
        return Judgement(_complete(folder, ref, applied, gates))
    found = {number: each for number, each in waivers.items() if each.holds_at(now)}
    covering = [_first(found, gate) for gate in gates]
    left = [gate for gate, number in zip(gates, covering, strict=True) if number is None]
    if left:
        return Judgement((), tuple(left), tuple(_notes(waivers, left, now)))
    used = [
        Applied.of(found[number], [g for g, c in zip(gates, covering, strict=True) if c == number])
        for number in sorted({number for number in covering if number is not None})
    ]
    faults.point("waiver.before_apply")
    decided = apply_waivers(folder, ref.interval, ref.plan_id, gates, used)
    faults.point("waiver.after_apply")
    return Judgement(_complete(folder, ref, decided, gates))


def judged(stage: Stage, verdict: Verdict, counts: Counts) -> Verdict:
    """Return the verdict with the waivers by which failed gates pass.

    Raises:
        GateError: A gate that blocks or asks failed, and no waiver lets it pass. The failed gates
            are recorded for a person who may waive them.
        FormatError: A waiver is damaged.
        StorageError: The publication root refused or failed.
    """
    failed = broken(verdict.gates, "block", "ask")
    gates = [gate.to_json() for gate in failed]
    found = judge(stage.folder, stage.plan.ref(), gates, datetime.now(UTC))
    if not found.open:
        return replace(verdict, waivers=found.waivers)
    _record(stage, gates, [line(gate, counts) for gate in failed])
    left = [gate for gate in failed if gate.to_json() in found.open]
    raise refusal(stage, verdict, counts, left, found.notes)


def _record(stage: Stage, gates: Sequence[Gate], lines: Sequence[str]) -> None:
    plan = stage.plan
    refused = Refused(plan.plan_id, plan.sha256(), tuple(gates), tuple(lines))
    try:
        write_refused(stage.folder, plan.interval["name"], refused)
    except (TrainFeedError, OSError) as error:
        # The failed gate is the answer; without the record it cannot be waived, which is said then.
        logger.warning("the failed gates of plan %s were not recorded: %s", plan.plan_id, error)
    faults.point("check.after_refused")


def _first(waivers: Mapping[int, Waiver], gate: Gate) -> int | None:
    return next((number for number, waiver in waivers.items() if waiver.covers(gate)), None)


def _require_there(
    folder: DatasetFolder, ref: PlanRef, applied: Sequence[Applied], waivers: Iterable[Waiver]
) -> None:
    """Refuse a decision by a waiver that was taken back, or proved to be forged."""
    names = ("who", "account", "why", "until", "at")
    known = {tuple(getattr(waiver, name) for name in names) for waiver in waivers}
    for each in applied:
        if tuple(getattr(each, name) for name in names) not in known:
            raise FormatError(
                f"plan {ref.plan_id} passed by a waiver that is not there any more: {each.told};"
                " nothing was published; to have its gates judged again, move away the files"
                f" {ref.plan_id}.waived-*.json, too",
                path=str(folder.plans(ref.interval)),
            )


def _complete(
    folder: DatasetFolder, ref: PlanRef, applied: tuple[Applied, ...], gates: Sequence[Gate]
) -> tuple[Applied, ...]:
    mine = [gate for waiver in applied for gate in waiver.gates]
    if not all(any(is_same_gate(gate, each) for each in mine) for gate in gates):
        raise FormatError(
            f"the waivers in use of plan {ref.plan_id} do not name all of its failed gates; nothing"
            " was published; move the file away; the next check decides again",
            path=str(folder.plans(ref.interval)),
        )
    return applied


def _notes(waivers: Mapping[int, Waiver], left: Sequence[Gate], now: datetime) -> list[str]:
    """Return why each waiver about a check and field of an open gate does not hold for it."""
    names = {gate_name(gate) for gate in left}
    notes = []
    for waiver in waivers.values():
        about = [gate for gate in waiver.gates if gate_name(gate) in names]
        if not about:
            continue
        if not waiver.holds_at(now):
            notes.append(f"the waiver of {waiver.told}, is over")
        elif not any(waiver.covers(gate) for gate in left):
            seen = ", ".join(f"{gate_name(g)} {shown_number(g['value'])}" for g in about)
            notes.append(f"the waiver of {waiver.told}, is about other values or limits: {seen}")
    return notes
