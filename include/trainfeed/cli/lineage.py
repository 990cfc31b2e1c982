"""``trainfeed lineage``: where data came from, and what came of them, as a tree of lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import typer

from trainfeed.cli.arguments import readable_environment
from trainfeed.cli.named_versions import known
from trainfeed.cli.printing import Result, json_option
from trainfeed.cli.targets import RangeWord, Target, name_argument
from trainfeed.errors import ConfigError
from trainfeed.look.lineage import Lineage, Node, NodeKind, SourcePosition, Tracer
from trainfeed.specification import check_name
from trainfeed.training.models import parse_version
from trainfeed.versions.retire import generation_for_readers
from trainfeed.versions.root import data_sets_of

# --- A lineage as a tree of lines for people

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


def _schema(facts: Any) -> str:
    digest = facts["sha256"]
    return "the registry has none" if digest is None else f"of writers, sha256 {digest[:16]}"


_TOLD: Final[dict[str, Callable[[Any], str]]] = {
    "input": _input,
    "version": _version,
    "job": _job,
    "model": _model,
    "code": _digested,
    "lookup": _digested,
    "upload": _upload,
    "schema": _schema,
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


# --- ``trainfeed lineage``: where data came from, and what came of them


@json_option(Annotated[bool, typer.Option("--json", help="Print nodes and edges as JSON.")])
def lineage(
    name: Annotated[
        str,
        name_argument(
            "NAME[@TAG][/RANGE[/gNNNN]]; kafka:TOPIC/PARTITION@OFFSET or logs:FILE@BYTE; a job;"
            " MODEL@ALIAS or MODEL/vNNNN."
        ),
    ],
    asked: RangeWord = None,
    *,
    up: Annotated[bool, typer.Option("--up", help="Only what went in.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Only what came of it.")] = False,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="For a position: only this data set.")
    ] = None,
) -> Result:
    """Show what a version or model came from, and led to.

    Also of a job, and of a record that is named by its position.

    Status 1 when a position is in no version, 3 when an entry is damaged; the others are shown.
    """
    root = Path(readable_environment().root)
    tracer = Tracer(root, up=up or not down, down=down or not up)
    found = _traced(tracer, root, name, asked, dataset)
    unread = [
        f"{entry} cannot be read, its part is missing: {why}"
        for entry, why in found.damaged.items()
    ]
    if unread or found.focus:
        messages, status = [*found.doubts, *unread], Result.DAMAGED if unread else 0
    else:
        messages, status = [*found.doubts, f"no version has {name}"], Result.FAILED
    return Result(found.to_json(), lineage_lines(found), messages, status)


def _traced(
    tracer: Tracer, root: Path, word: str, asked: str | None, dataset: str | None
) -> Lineage:
    if ":" in word:
        if asked is not None:
            raise ConfigError(f"expected nothing behind a position, got {asked[:80]!r}")
        only = None if dataset is None else check_name(dataset)
        return tracer.of_position(SourcePosition.parse(word), only)
    if dataset is not None:
        raise ConfigError(f"expected a position beside --dataset, got {word[:80]!r}")
    name, _, rest = word.partition("/")
    if asked is None:
        if ("@" in word and not rest) or _is_model_version(rest):
            return tracer.of_model(word)
        if not rest and name not in data_sets_of(root):
            return tracer.of_job(name)
    found = known(Target.parse(word, asked))
    if found.tag is not None:
        versions = found.coverage().versions
        generations = {each.path.parent.name: each.manifest.generation for each in versions}
        return tracer.of_generations(found.folder.name, generations)
    if found.asked is None or found.is_range():
        return tracer.of_range(found.folder.name, found.asked)
    number = found.generation or generation_for_readers(found.folder, found.asked)
    return tracer.of_version(found.folder.name, found.asked, number)


def _is_model_version(text: str) -> bool:
    try:
        parse_version(text)
    except ConfigError:
        return False
    return True
