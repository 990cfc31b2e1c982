"""The part of a run's page about its version: counts, sources, generations, statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from plugins._account_view import account, counts
from plugins._html import Html, pairs, section, table, text

__all__ = ["told_lines", "version_parts"]


def version_parts(found: Mapping[str, Any]) -> Iterable[str]:
    """Yield the sections about the version of a run.

    Args:
        found: The report of the version for pages.
    """
    version, totals = found.get("version", {}), found.get("totals", {})
    size = {"shards": version.get("shards"), "bytes": version.get("bytes")}
    splits = ", ".join(f"{name} {count}" for name, count in found.get("splits", {}).items())
    yield section("Version", counts(found.get("counts", {}), splits=splits, **size))
    yield from account({**found, "counts": {}})
    yield section("Sources", _sources(found), _more(totals, "sources", found))
    yield section("Records stamped outside of the interval", _late(found.get("late") or {}))
    yield section("Gaps that were allowed", told_lines(found.get("gaps")))
    yield section("Versions of this interval", _generations(found.get("generations", [])))
    yield section("Statistics", _statistics(found), _more(totals, "statistics", found))
    names = ("path", "start", "end", "content_digest", "fingerprint", "code", "plan")
    details = pairs({name.replace("_", " "): version.get(name) for name in names})
    yield f"<details><summary>Digests and places</summary>{details}</details>"


def _late(found: Mapping[str, Any]) -> str:
    names = ("late", "future", "unstamped", "ahead", "refused", "max_lateness_ms")
    counted = {name.replace("_", " "): found.get(name) for name in names if found.get(name)}
    return pairs(counted)


def _sources(found: Mapping[str, Any]) -> str:
    rows = [
        (s.get("source"), _range(s), s.get("records"), s.get("bytes"))
        for s in found.get("sources", [])
    ]
    return table(("source", "range", "records", "bytes"), rows)


def _range(source: Mapping[str, Any]) -> Html:
    start, end = text(source.get("start")), text(source.get("end"))
    return Html(f"[{start}, {end}) {text(source.get('unit'))}")


def _generations(generations: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (
            f"{g.get('generation')}{' (this one)' if g.get('this') else ''}",
            g.get("samples", ""),
            g.get("quarantined", ""),
            Html(f"<code>{text(g.get('content', ''))}</code>"),
            g.get("why", ""),
        )
        for g in generations
    ]
    return table(("generation", "samples", "quarantined", "content", "why"), rows)


def _statistics(found: Mapping[str, Any]) -> str:
    statistics = found.get("statistics", {})
    names = ("count", "nulls", "min", "max", "mean", "std")
    rows = [(name, *(field.get(n) for n in names)) for name, field in statistics.items()]
    return table(("field", *names), rows)


def _more(totals: Mapping[str, Any], kind: str, found: Mapping[str, Any]) -> str:
    total = totals.get({"statistics": "fields"}.get(kind, kind), 0)
    shown = len(found.get(kind, ()))
    return f'<p class="soft">the first {shown} of {text(total)}</p>' if total > shown else ""


def told_lines(lines: Any) -> str:
    """Return lines as they are; empty without any."""
    return f"<pre>{text(chr(10).join(map(str, lines)))}</pre>" if lines else ""
