"""Versions of data sets in a lineage, and what went into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainfeed.dataset import DatasetFolder, Manifest
from trainfeed.dataset.layout import generation_name
from trainfeed.dataset.withdraw import withdrawal_of
from trainfeed.lineage._lineage_graph import Node, NodeKind
from trainfeed.lineage._trace import Trace
from trainfeed.pipeline.plans import unit_of_input

__all__ = ["add_version", "version_name"]


def version_name(dataset: str, interval: str, generation: int) -> str:
    """Return the name of a version in a lineage: ``clicks/2024-03-01/g0001``."""
    return f"{dataset}/{interval}/{generation_name(generation)}"


def add_version(
    trace: Trace, folder: DatasetFolder, interval: str, generation: int, *, inputs: bool
) -> str:
    """Add a version to a trace, also one that is removed or damaged, and return its id.

    Args:
        trace: The trace.
        folder: The data set.
        interval: Name of the interval.
        generation: Number of the generation.
        inputs: Whether to add what went into it, too.
    """
    name = version_name(folder.name, interval, generation)
    manifest, digest = None, None
    with trace.entry(name):
        if not folder.is_removed(interval, generation):
            manifest, digest = Manifest.read(folder.version(interval, generation))
    state = _state(trace, folder, interval, generation, name)
    facts: dict[str, Any] = {"state": state, "manifest_sha256": digest}
    if state == "withdrawn" and (mark := withdrawal_of(folder, interval, generation)) is not None:
        facts["withdrawn"] = mark.told
    if manifest is not None:
        facts |= _facts(manifest)
    version = trace.graph.add(Node("version", name, facts))
    if manifest is not None and inputs:
        for node in _inputs(folder, manifest):
            trace.graph.connect(trace.graph.add(node), version)
    return version


def _state(trace: Trace, folder: DatasetFolder, interval: str, generation: int, name: str) -> str:
    if name in trace.damaged:
        return "damaged"
    if folder.is_removed(interval, generation):
        return "removed"
    if generation not in folder.generations(interval):
        return "withdrawn"
    return "for readers" if folder.readable_generation(interval) == generation else "published"


def _facts(manifest: Manifest) -> dict[str, Any]:
    return {
        "samples": manifest.num_samples(),
        "fingerprint": manifest.fingerprint,
        "content_digest": manifest.content_digest,
        "plan": manifest.plan,
        "built_because": (manifest.supersedes or {}).get("why"),
    }


def _inputs(folder: DatasetFolder, manifest: Manifest) -> Iterator[Node]:
    for source, planned in manifest.inputs.items():
        read = manifest.ledger.get(source, {}).get("read", {}).get("records", 0)
        yield _input(source, planned, read)
    for upload in manifest.uploads.get("files", []):
        yield Node("upload", f"{folder.name}/uploads/{upload['name']}", upload)
    for name, digest in manifest.lookups.items():
        yield _digested(folder, "lookup", name, digest, is_kept=folder.lookup(digest).exists())
    digest = manifest.code["digest"]
    files = ", ".join(manifest.code.get("files", []))
    yield _digested(folder, "code", files, digest, is_kept=folder.code(digest).exists())


def _input(source: str, planned: Mapping[str, Any], num_records: int) -> Node:
    start, end = planned["start"], planned["end"]
    unit = unit_of_input(planned)
    name = f"{source}@{start}-{end}" if unit == "offsets" else source
    return Node("input", name, {**planned, "source": source, "unit": unit, "records": num_records})


def _digested(
    folder: DatasetFolder, kind: NodeKind, name: str, digest: str, *, is_kept: bool
) -> Node:
    facts = {"name": name, "sha256": digest, "kept": is_kept}
    return Node(kind, f"{folder.name} {name} {digest[:16]}", facts)
