"""The account of an interval's records as HTML: gates, reasons with examples, a command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from plugins._html import Html, badge, code, pairs, section, table, text

__all__ = ["account", "counts"]

# The order of the counts: databases do not keep that of JSON.
_COUNTS: Final = ("read", "samples", "quarantined", "filtered")


def account(report: Any) -> Iterable[str]:
    """Yield the sections about records: gates, waivers, reasons, examples, a command for more."""
    if not isinstance(report, Mapping):
        return
    yield section("Gates", _gates(report.get("gates", []), _waived(report)))
    yield section("Waived by people", _waivers(report.get("waivers", [])))
    yield section("Samples that fail a gate", _offending(report.get("offending", [])))
    yield section("Records", counts(report.get("counts", {})))
    yield section("Quarantined", _reasons(report.get("reasons", [])), _look(report))
    filtered = sorted(report.get("filtered", {}).items(), key=lambda item: -item[1])
    yield section("Filtered: good, but not wanted", table(("reason", "records"), filtered))


def counts(found: Mapping[str, Any], **more: Any) -> str:
    """Return the counts of records by outcome."""
    return pairs({**{name: found.get(name) for name in _COUNTS}, **more})


def _waived(report: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the gates that passed by a waiver."""
    gates = (gate for waiver in report.get("waivers", []) for gate in waiver.get("gates", []))
    return frozenset(map(_gate_name, gates))


def _gates(gates: Iterable[Mapping[str, Any]], waived: frozenset[str]) -> str:
    rows = [
        (
            _gate_name(gate),
            Html(text(gate.get("value"))),
            _allowed(gate),
            gate.get("because", ""),
            Html(_outcome(gate, waived)),
        )
        for gate in sorted(gates, key=lambda gate: bool(gate.get("passed")))
    ]
    return table(("gate", "value", "allowed", "counts", ""), rows)


def _waivers(waivers: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (
            ", ".join(map(_gate_name, waiver.get("gates", []))),
            waiver.get("who"),
            waiver.get("account"),
            waiver.get("why"),
            waiver.get("at"),
            waiver.get("until"),
        )
        for waiver in waivers
    ]
    return table(("gates", "who", "account", "why", "at", "until"), rows)


def _gate_name(gate: Mapping[str, Any]) -> str:
    # Reports of earlier versions of trainfeed have no name of a gate.
    if "name" in gate:
        return str(gate["name"])
    return (
        f"{gate.get('check')} of {gate['field']}" if gate.get("field") else str(gate.get("check"))
    )


def _allowed(gate: Mapping[str, Any]) -> str:
    if "allowed" in gate:
        return str(gate["allowed"])
    return ", ".join(f"{s} {gate[s]}" for s in ("min", "max") if gate.get(s) is not None)


def _outcome(gate: Mapping[str, Any], waived: frozenset[str]) -> str:
    if gate.get("passed"):
        return badge("passed", "good")
    severity = str(gate.get("severity"))
    if severity != "warn" and _gate_name(gate) in waived:
        return badge("failed, waived")
    return badge(
        {"warn": "failed (warning)", "ask": "failed (asks)"}.get(severity, "failed"), "bad"
    )


def _reasons(reasons: Iterable[Mapping[str, Any]]) -> str:
    rows: list[tuple[Any, ...]] = []
    for reason in reasons:
        examples = reason.get("examples") or [{}]
        for number, example in enumerate(examples):
            first = (reason.get("reason"), reason.get("records")) if number == 0 else ("", "")
            rows.append((*first, *_example(example)))
    return table(("reason", "records", "example at", "error", "record"), rows)


def _offending(found: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (_gate_name(each), *_example(example)[:2])
        for each in found
        for example in each.get("examples", [])
    ]
    return table(("gate", "example at", "value"), rows)


def _example(example: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    if not example:
        return "", "", ""
    place = f"{example.get('source')} offset {example.get('offset')}"
    record = text(example.get("value", ""))
    shown = f"<code>{record}</code>" if record else '<span class="soft">no bytes</span>'
    return place, example.get("message", ""), Html(shown)


def _look(report: Mapping[str, Any]) -> str:
    command = report.get("command")
    if not command:
        return ""
    place = (
        f"<p>The records are in <code>{text(report['quarantine'])}</code></p>"
        if report.get("quarantine")
        else ""
    )
    return f"{place}<p>To see all, on a machine that reaches these folders:</p>{code(command)}"
