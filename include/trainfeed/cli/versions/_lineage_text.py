"""A lineage as a tree of lines for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, get_args

from trainfeed.lineage import Lineage, Node, NodeKind

__all__ = ["lineage_lines"]

_KINDS: Final = get_args(NodeKind)
# Of a data set with many partitions only the first are lines; the JSON has all.
_MOST: Final = 20


def lineage_lines(found: Lineage) -> Iterator[str]:
    """Yield, for each node that was asked for, its line, what went in, and what came of it."""
    graph = found.graph
    for number, name in enumerate(found.focus):
        if number:
            yield ""
        yield f"{_line(graph.nodes[name])}{_fate(found.fates.get(name))}"
        for title, step in (("from", graph.sources), ("to", graph.targets)):
            if step(name):
                yield f"  {title}"
                yield from _below(name, step, depth=2, seen={name})


def _below(
    name: str, step: Callable[[str], list[Node]], *, depth: int, seen: set[str]
) -> Iterator[str]:
    nodes = sorted(step(name), key=lambda node: _KINDS.index(node.kind))
    for node in nodes[:_MOST]:
        is_new = node.id not in seen
        yield f"{'  ' * depth}{_line(node)}{'' if is_new else ' (see above)'}"
        if is_new:
            seen.add(node.id)
            yield from _below(node.id, step, depth=depth + 1, seen=seen)
    if len(nodes) > _MOST:
        yield f"{'  ' * depth}and {len(nodes) - _MOST} more, which --json has"


def _line(node: Node) -> str:
    told = _TOLD.get(node.kind, lambda _: "")(node.facts)
    name = node.facts["source"] if node.kind == "input" else node.name
    return f"{node.kind} {name}{f': {told}' if told else ''}"


def _input(facts: Any) -> str:
    if facts["unit"] == "bytes":
        identity = facts.get("checksum") or f"file id {facts.get('file_id')}"
        return f"{facts['end']} bytes, {identity}, {facts['records']} records"
    last = f"offsets {facts['start']} to {facts['end'] - 1}"
    span = last if facts["end"] > facts["start"] else "no offset"
    return f"{span}, topic id {facts['topic_uuid']}, {facts['records']} records"


def _version(facts: Any) -> str:
    samples = f", {facts['samples']} samples" if "samples" in facts else ""
    why = f", built because: {facts['built_because']}" if facts.get("built_because") else ""
    withdrawn = f", {facts['withdrawn']}" if facts.get("withdrawn") else ""
    return f"{facts['state']}{samples}{why}{withdrawn}"


def _job(facts: Any) -> str:
    return f"{facts['state']}, runs {facts.get('runs') or facts.get('entry')}"


def _model(facts: Any) -> str:
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in facts["metrics"].items())
    removed = facts.get("removed")
    return f"{metrics}, removed at {removed['at']} ({removed['why']})" if removed else metrics


def _digested(facts: Any) -> str:
    return "text kept" if facts["kept"] else "text not kept"


def _upload(facts: Any) -> str:
    return f"number {facts['number']}, {facts['rows']} rows, sha256 {facts['sha256'][:16]}"


_TOLD: Final[dict[str, Callable[[Any], str]]] = {
    "input": _input,
    "version": _version,
    "job": _job,
    "model": _model,
    "code": _digested,
    "lookup": _digested,
    "upload": _upload,
}


def _fate(fate: dict[str, Any] | None) -> str:
    if not fate:
        return ""
    told = {
        "valid": lambda: f"valid: samples in {', '.join(fate['splits'])}: {fate['samples']}",
        "quarantined": lambda: f"quarantined: {fate['reason']}",
    }
    return (
        f"; the record is {told[fate['fate']]()}"
        if fate["fate"] in told
        else (f"; {fate['fate']}: {fate['why']}")
    )
