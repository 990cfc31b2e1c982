"""The error of an interval that is not published: gates, reasons, examples, place, remedy.

Examples are samples that fail the gate of a field: the value of the gate alone does not show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from trainfeed.errors import GateError, TrainFeedError
from trainfeed.pipeline._ref import JsonObject
from trainfeed.pipeline.gates import Counts, GateResult, line, told
from trainfeed.pipeline.quarantine import (
    Example,
    Reason,
    plain,
    quarantine_of_plan,
    told_reasons,
    turned_down,
)
from trainfeed.pipeline.sorting import ArrowWithTrailer
from trainfeed.pipeline.stage import Stage, kept
from trainfeed.pipeline.version._verdict import Verdict
from trainfeed.samples import Schema, TypedCodec
from trainfeed.specification import gate_name

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "check_report",
    "look_command",
    "refusal",
    "waive_command",
]

_MOST_GATES: Final = 10
_MOST_CHARS: Final = 8_000
_REMEDY: Final = (
    "fix the source, the function or the gate in dataset.yaml, then build the interval again"
    " (in Airflow: trigger it again)"
)
_MOST_EXAMPLES: Final = 2
# Their statistics do not say which samples they come from.
_SEARCHED: Final = frozenset({"null_ratio", "range"})
# Decoding a sample takes about 10 µs: the search for examples may take a second, not an hour.
_MOST_SAMPLES: Final = 100_000


def refusal(
    stage: Stage,
    verdict: Verdict,
    counts: Counts,
    gates: Sequence[GateResult],
    notes: Sequence[str],
) -> GateError:
    """Return the error of failed gates that stop a build.

    Args:
        stage: The stage ``check``.
        verdict: The verdict of the stage.
        counts: The counts that the gates used.
        gates: The failed gates that block or ask, and are not waived; at least one.
        notes: Why waivers of the plan do not let them pass.
    """
    reasons = _reasons(stage, verdict.quarantine.reasons)
    examples = {number: _examples(stage, gate) for number, gate in enumerate(gates)}
    name = f"{stage.plan.dataset}/{stage.plan.interval['name']}"
    lines = _gate_lines(gates, examples, counts)
    lines[0] = f"{name} is not published: {lines[0]}"
    lines += _what_became(stage, verdict, reasons)
    lines += [*notes, kept(stage.spec), f"{_REMEDY}; or let it pass: {waive_command(stage)}"]
    report = check_report(stage, verdict, counts, reasons)
    message = "\n".join(lines)
    return GateError(
        message[:_MOST_CHARS],
        report={**report, "offending": _offending(gates, examples)},
        question=_question(stage, gates),
    )


def _question(stage: Stage, gates: Sequence[GateResult]) -> JsonObject | None:
    if any(gate.severity != "ask" for gate in gates):
        return None
    return {"plan_sha256": stage.plan_sha256, "gates": [gate.to_json() for gate in gates]}


def check_report(
    stage: Stage, verdict: Verdict, counts: Counts, reasons: Sequence[Reason] = ()
) -> JsonObject:
    """Return the report of the stage for pages: small JSON.

    Returns:
        ``counts``, ``reasons`` (the most frequent, with examples), ``filtered``, ``gates`` with
        value and the counts behind it, ``waivers``, ``quarantine`` (place of the records) and
        ``command``.
    """
    quarantined = verdict.quarantine.reasons
    shown = reasons or [Reason(name, records) for name, records in quarantined.items()]
    return {
        "counts": counts.to_json(),
        "reasons": [reason.to_json() for reason in shown[:_MOST_GATES]],
        "filtered": dict(list(verdict.filtered.items())[:_MOST_GATES]),
        "gates": [told(gate, counts) for gate in verdict.gates],
        "waivers": [waiver.to_json() for waiver in verdict.waivers],
        "quarantine": stage.spill.uri if quarantined else None,
        "command": look_command(stage) if quarantined else None,
    }


def look_command(stage: Stage) -> str:
    """Return the command that shows the quarantined records of the plan."""
    plan = stage.plan
    return f"trainfeed quarantine show {plan.dataset}/{plan.interval['name']} --plan {plan.plan_id}"


def waive_command(stage: Stage) -> str:
    """Return the command by which a person lets the failed gates of the plan pass."""
    plan = stage.plan
    name = f"{plan.dataset}/{plan.interval['name']}"
    return f"trainfeed waive {name} --plan {plan.plan_id} --why WHY --until TIME"


def _gate_lines(
    gates: Sequence[GateResult], examples: Mapping[int, Sequence[Example]], counts: Counts
) -> list[str]:
    lines = []
    for number, gate in enumerate(gates[:_MOST_GATES]):
        lines.append(f"{'and ' if number else ''}{line(gate, counts)}")
        for example in examples[number]:
            lines += example.lines(gate.check)
    return lines


def _reasons(stage: Stage, counts: Mapping[str, int]) -> list[Reason]:
    # Examples are only an addition: an error while they are read must not hide the failed gate.
    with suppress(TrainFeedError):
        return turned_down(quarantine_of_plan(stage.env, stage.plan.ref()), counts)
    return [Reason(name, records) for name, records in counts.items()]


def _what_became(stage: Stage, verdict: Verdict, reasons: Iterable[Reason]) -> list[str]:
    lines = []
    if quarantined := verdict.quarantine.reasons:
        lines.append(f"quarantined: {told_reasons(quarantined)}")
        lines += [text for reason in reasons for text in reason.lines]
    if verdict.filtered:
        lines.append(f"filtered: {told_reasons(verdict.filtered)}")
    if quarantined:
        lines.append(f"the quarantined records are in {stage.spill.uri}")
        lines.append(f"to see them: {look_command(stage)}")
    return lines


def _offending(
    gates: Sequence[GateResult], examples: Mapping[int, Sequence[Example]]
) -> list[JsonObject]:
    return [
        {"name": gate_name(gate.gate), "examples": [e.to_json() for e in found]}
        for number, gate in enumerate(gates)
        if (found := examples[number])
    ]


def _examples(stage: Stage, result: GateResult) -> Sequence[Example]:
    """Return the examples of a gate; for gates on statistics, look for some."""
    if result.check in _SEARCHED and result.field is not None:
        return _offending_samples(stage, result, result.field)
    return result.examples


def _offending_samples(stage: Stage, result: GateResult, field: str) -> list[Example]:
    """Return the first samples that fail a gate, among the first 100,000 of the work files.

    Returns:
        At most 2 examples; none if all samples that fail it come later.
    """
    samples = islice(_samples(stage), _MOST_SAMPLES)
    found = (
        Example(plain(source), offset, f"{field} is {_shown(sample.get(field))}", "")
        for source, offset, sample in samples
        if _breaks(result, sample.get(field))
    )
    return list(islice(found, _MOST_EXAMPLES))


def _samples(stage: Stage) -> Iterator[tuple[str, int, Mapping[str, object]]]:
    codec = TypedCodec(Schema.from_json(stage.plan.fields))
    sources = stage.plan.sources
    for group in range(len(stage.plan.preprocess)):
        with closing(ArrowWithTrailer(stage.spill_file(group))) as spill:
            for table in spill.iter_tables():
                columns = (table[name].to_pylist() for name in ("source", "offset", "record"))
                for source, offset, record in zip(*columns, strict=True):
                    yield sources[source], offset, dict(codec.decode(record))


def _breaks(result: GateResult, value: object) -> bool:
    if result.check == "null_ratio":
        return value is None
    if value is None:
        return False
    numbers = np.asarray(cast("ArrayLike", value), dtype=np.float64)
    low, high = (cast("float | None", result.gate.get(side)) for side in ("min", "max"))
    outside = ~np.isfinite(numbers)
    if low is not None:
        outside |= numbers < low
    if high is not None:
        outside |= numbers > high
    return bool(outside.any())


def _shown(value: object) -> str:
    if value is None:
        return "absent"
    return plain(str(value.tolist() if isinstance(value, np.ndarray | np.generic) else value))
