"""The model of a training as HTML: its gate, the published version, its promotion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from plugins._html import Html, badge, pairs, section, table, text

__all__ = ["gate", "model"]

_MODEL: Final = ("model", "version", "job", "path", "files", "bytes", "data", "manifest_sha256")


def gate(found: Any) -> str:
    """Return the gate of a model: each metric, its limits, and the promoted model's value."""
    if not isinstance(found, Mapping) or not isinstance(found.get("metrics"), list):
        return ""
    rows = [
        (
            each.get("metric"),
            Html(text(each.get("value"))),
            _allowed(each),
            Html(text(each.get("promoted"))),
            Html(badge("passed", "good") if each.get("passed") else badge("failed", "bad")),
        )
        for each in found["metrics"]
        if isinstance(each, Mapping)
    ]
    columns = ("metric", "value", "allowed", "promoted model", "")
    note = f"<p>{text(found.get('note'))}</p>" if found.get("note") else ""
    return section("Gate of the model", table(columns, rows), note)


def model(found: Mapping[str, Any], promotion: Mapping[str, Any]) -> Iterable[str]:
    """Yield the sections of a run's model: gate, version and promotion."""
    if not found:
        return
    yield gate(found.get("gate"))
    data = found.get("data")
    read = ", ".join(map(str, data)) if isinstance(data, list) else data
    yield section("Model", pairs({name: found.get(name) for name in _MODEL} | {"data": read}))
    if promotion:
        leads = {name: promotion.get(name) for name in ("verdict", "prod", "note")}
        yield section("Promotion", pairs(leads))


def _allowed(each: Mapping[str, Any]) -> str:
    limits = [f"{side} {each[side]}" for side in ("min", "max") if each.get(side) is not None]
    if each.get("max_worse") is not None:
        limits.append(f"worse by at most {each['max_worse']}")
    return ", ".join(limits)
